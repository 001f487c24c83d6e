//===- CublasLtDevice.h - Matmuls on a device -------------------*- C++ -*-===//

#ifndef BINADE_TEST_CUDA_CUBLASLTDEVICE_H
#define BINADE_TEST_CUDA_CUBLASLTDEVICE_H

#include "../../../lib/Runtime/Cuda/CublasLtMatmul.h"
#include "Codes.h"
#include "SimulatedDevice.h"

namespace binade::cuda {

using test::Codes;
using test::makeCodes;

/// Compares matmuls of cuBLASLt, which sums in f32 or less, with f64 sums.
struct CublasLtDevice : SimulatedDevice {
  void SetUp() override { start(""); }
  /// Closes the device and the library and opens them with new settings.
  void start(const char *settings) {
    library.reset();
    device.reset();
    SimulatedDevice::open(settings);
    auto opened = CublasLt::open(*device);
    ASSERT_TRUE(opened) << render(opened.error());
    library = *std::move(opened);
  }
  void TearDown() override { library.reset(); }

  DeviceMemory put(const std::string &bytes) {
    auto memory = device->allocate(bytes.size());
    EXPECT_TRUE(device->upload(memory->get(), bytes.data(), bytes.size()));
    return *std::move(memory);
  }
  DeviceMemory putF32(const std::vector<float> &values) {
    return SimulatedDevice::put(values);
  }
  std::string getBytes(const DeviceMemory &memory, std::size_t bytes) {
    std::string text(bytes, 0);
    EXPECT_TRUE(device->read(text.data(), memory.get(), bytes));
    return text;
  }

  /// Returns the library's error for a problem; empty if it supports it.
  std::string create(const MatmulProblem &problem) {
    auto matmul = CublasLtMatmul::create(library, problem, 1 << 20);
    if (matmul)
      return "";
    EXPECT_EQ(matmul.error().exitCode, ExitCode::Device);
    return render(matmul.error());
  }

  /// Returns the matmul in f64, before the epilogue. `scale(row, column, l)` is
  /// the factor of a term. Sets `slack`.
  template <typename Scale>
  std::vector<double> multiply(const MatmulProblem &p, const Codes &lhs,
                               const Codes &rhs, Scale scale) {
    auto get = [](const Codes &codes, std::int64_t stride, bool isTransposed,
                  std::int64_t row, std::int64_t column, std::int64_t start) {
      if (isTransposed)
        std::swap(row, column);
      return codes
          .values[static_cast<std::size_t>(start + row * stride + column)];
    };
    auto choose = [](std::int64_t stride, std::int64_t width) {
      return stride ? stride : width;
    };
    std::int64_t left = choose(p.lhsStride, p.transposeLhs ? p.m : p.k),
                 right = choose(p.rhsStride, p.transposeRhs ? p.k : p.n);
    // Tensor cores keep 14 bits of sums of FP8; other types are summed in f32.
    double loss =
        byteSize(p.lhs) == 1 ? 0x1p-12 : static_cast<double>(p.k) * 0x1p-23;
    std::vector<double> out;
    slack.clear();
    for (std::int64_t batch = 0; batch < p.batch; ++batch)
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
          double sum = 0, magnitude = 0;
          for (std::int64_t l = 0; l < p.k; ++l) {
            double term =
                get(lhs, left, p.transposeLhs, i, l, batch * p.lhsBatchStride) *
                get(rhs, right, p.transposeRhs, l, j,
                    batch * p.rhsBatchStride) *
                scale(i, j, l);
            sum += term;
            magnitude += std::fabs(term);
          }
          out.push_back(sum);
          slack.push_back(loss * magnitude);
        }
    return out;
  }
  std::vector<double> multiply(const MatmulProblem &p, const Codes &lhs,
                               const Codes &rhs) {
    return multiply(p, lhs, rhs, [](auto...) { return 1.0; });
  }

  /// Runs the problem and compares its result with `expected`.
  void check(const MatmulProblem &p, const Codes &lhs, const Codes &rhs,
             const std::vector<double> &expected, MatmulAddresses addresses,
             const std::string &oldOut = {}) {
    auto matmul = CublasLtMatmul::create(library, p, 1 << 20);
    ASSERT_TRUE(matmul) << render(matmul.error());
    std::size_t bytes = expected.size() * byteSize(p.out);
    DeviceMemory a = put(lhs.bytes), b = put(rhs.bytes),
                 d = put(oldOut.empty() ? std::string(bytes, '\xff') : oldOut);
    auto workspace = device->allocate(matmul->getWorkspaceBytes());
    addresses.lhs = a.get();
    addresses.rhs = b.get();
    addresses.out = d.get();
    addresses.workspace = workspace->get();
    auto done = matmul->run(addresses, {"matmul", "MatMul 'm'"});
    ASSERT_TRUE(done) << render(done.error());
    compare(p.out, test::readCodes(p.out, getBytes(d, bytes)), expected);
  }

  /// Compares `out` with `expected`, allowing for one rounding to `type` and
  /// for the errors of sums, `slack`.
  void compare(DType type, const std::vector<double> &out,
               const std::vector<double> &expected) const {
    ASSERT_EQ(out.size(), expected.size());
    test::FloatBits bits = test::bitsOf(type);
    double smallest = std::ldexp(1, -bits.getBias() - bits.fraction);
    for (std::size_t i = 0; i < out.size(); ++i) {
      double rounding = std::ldexp(std::fabs(expected[i]), -bits.fraction - 1);
      ASSERT_NEAR(out[i], expected[i],
                  1.001 * rounding + smallest + getSlack(i))
          << "element " << i;
    }
  }
  double getSlack(std::size_t i) const {
    // An epilogue increases the error by less than this factor.
    return slack.empty() ? 0 : 8 * slack[i % slack.size()];
  }

  std::shared_ptr<CublasLt> library;
  /// The error of each element's sum, as of the last call of `multiply`.
  std::vector<double> slack;
};

/// An FP8 problem in the layout of the hardware: `rhs` is transposed.
inline MatmulProblem makeFp8(DType lhs, DType rhs, DType out, std::int64_t m,
                             std::int64_t n, std::int64_t k) {
  MatmulProblem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.lhs = lhs;
  problem.rhs = rhs;
  problem.out = out;
  problem.transposeRhs = true;
  return problem;
}

} // namespace binade::cuda

#endif // BINADE_TEST_CUDA_CUBLASLTDEVICE_H
