//===- EpilogueTest.cpp - Epilogues of matmuls ----------------------------===//
// These tests do not depend on the device.
//===----------------------------------------------------------------------===//

#include "CublasLtDevice.h"

using namespace binade;
using namespace binade::cuda;

namespace {
struct EpilogueTest : CublasLtDevice {
  EpilogueTest() {
    p.m = 5;
    p.n = 8;
    p.k = 3;
    p.lhs = p.rhs = p.out = p.bias = p.aux = DType::BF16;
    lhs = makeCodes(DType::BF16, 15, 10);
    rhs = makeCodes(DType::BF16, 24, 11);
  }

  /// GELU with tanh, in the equivalent form x * sigmoid(2 u).
  static double gelu(double x) {
    return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) *
                             (x + 0.044715 * x * x * x)));
  }
  static double differentiate(double x) {
    constexpr double h = 1e-5;
    return (gelu(x + h) - gelu(x - h)) / (2 * h);
  }

  /// Returns the result of the matmul with the bias of each column added.
  std::vector<double> addBias(const std::vector<double> &bias) {
    std::vector<double> sums = multiply(p, lhs, rhs);
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += bias[i % 8];
    return sums;
  }

  MatmulProblem p;
  Codes lhs, rhs;
};
} // namespace

TEST_F(EpilogueTest, AddsTheBias) {
  p.epilogue = Epilogue::Bias;
  Codes bias = makeCodes(DType::BF16, 8, 12);
  DeviceMemory memory = put(bias.bytes);
  check(p, lhs, rhs, addBias(bias.values), {.bias = memory.get()});
}

TEST_F(EpilogueTest, AppliesGelu) {
  for (bool hasBias : {false, true}) {
    p.epilogue = hasBias ? Epilogue::GeluBias : Epilogue::Gelu;
    Codes bias = makeCodes(DType::BF16, 8, 12);
    DeviceMemory memory = put(bias.bytes), aux = put(std::string(80, '\xff'));
    std::vector<double> sums =
        addBias(hasBias ? bias.values : std::vector<double>(8));
    std::vector<double> expected;
    for (double sum : sums)
      expected.push_back(gelu(sum));
    check(p, lhs, rhs, expected, {.bias = memory.get(), .aux = aux.get()});
    compare(DType::BF16, test::readCodes(DType::BF16, getBytes(aux, 80)), sums);
  }
}

TEST_F(EpilogueTest, MultipliesByTheDerivativeOfGelu) {
  for (Epilogue epilogue : {Epilogue::DGelu, Epilogue::DGeluBGrad}) {
    p.epilogue = epilogue;
    Codes before = makeCodes(DType::BF16, 40, 13);
    DeviceMemory aux = put(before.bytes), bias = put(std::string(16, '\0'));
    std::vector<double> expected = multiply(p, lhs, rhs);
    std::vector<double> gradient(8);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] *= differentiate(before.values[i]);
      gradient[i % 8] += expected[i];
    }
    check(p, lhs, rhs, expected, {.bias = bias.get(), .aux = aux.get()});
    if (epilogue == Epilogue::DGeluBGrad)
      compare(DType::BF16, test::readCodes(DType::BF16, getBytes(bias, 16)),
              gradient);
  }
}

TEST_F(EpilogueTest, SumsAnOperandForTheBiasGradient) {
  for (Epilogue epilogue : {Epilogue::BGradLeft, Epilogue::BGradRight}) {
    p.epilogue = epilogue;
    DeviceMemory bias = put(std::string(16, '\0'));
    std::vector<double> gradient(epilogue == Epilogue::BGradLeft ? 5 : 8);
    for (std::size_t l = 0; l < 3; ++l)
      for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] += epilogue == Epilogue::BGradLeft ? lhs.values[i * 3 + l]
                                                       : rhs.values[l * 8 + i];
    check(p, lhs, rhs, multiply(p, lhs, rhs), {.bias = bias.get()});
    compare(DType::BF16,
            test::readCodes(DType::BF16, getBytes(bias, 2 * gradient.size())),
            gradient);
  }
}
