//===- Product.cpp - Matmuls of the simulated cuBLASLt --------------------===//

#include "Product.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

using namespace simulated;

static double read(const MatrixLayout &x, Address p, std::uint64_t batch,
                   std::uint64_t row, std::uint64_t column) {
  auto at =
      static_cast<Address>(static_cast<std::int64_t>(batch) * x.batchStride) +
      column * static_cast<Address>(x.ld) + row;
  int bytes = getByteSize(x.type);
  return decode(x.type, findMemory(p + at * static_cast<Address>(bytes),
                                   static_cast<std::size_t>(bytes)));
}

static double readF32(Address p, std::uint64_t index) {
  return decode(type::F32, findMemory(p + 4 * index, 4));
}

/// Returns the scale of element `l` of the contracted axis, in row `row` of A
/// or column `row` of B; `rows` is the number of these rows or columns.
static double getScale(const MatmulDesc &desc, int mode, int pointer,
                       std::uint64_t rows, std::uint64_t row, std::uint64_t k,
                       std::uint64_t l) {
  Address p = desc.get(pointer);
  if (!p)
    return 1;
  switch (desc.get(mode)) {
  case scale::Vec128:
    return readF32(p, l / 128 * rows + row);
  case scale::Block128x128: {
    std::uint64_t blocks = (k + 127) / 128;
    return readF32(p, row / 128 * ((blocks + 3) / 4 * 4) + l / 128);
  }
  default:
    return readF32(p, 0);
  }
}

static double toTf32(double value) {
  float single = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &single, 4);
  bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
  std::memcpy(&single, &bits, 4);
  return single;
}

static double gelu(double x) {
  return x / 2 *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double geluDerivative(double x) {
  double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 +
         x / 2 * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

void simulated::multiply(const Call &call) {
  const MatmulDesc &desc = call.desc;
  Operands x{desc, call.a, call.b, call.c, call.d};
  std::uint64_t m = x.getM(), n = x.getN(), k = x.getK();
  bool isTf32 = desc.compute == compute::FastTf32;
  int epilogue = x.getEpilogue();
  auto biasType = static_cast<int>(desc.get(desc::BiasDataType, call.d.type));
  auto auxType = static_cast<int>(desc.get(desc::AuxDataType, call.d.type));
  Address bias = desc.get(desc::BiasPointer), aux = desc.get(desc::AuxPointer);
  auto biasBytes = static_cast<std::size_t>(getByteSize(biasType));
  auto auxBytes = static_cast<std::size_t>(getByteSize(auxType));
  bool addsBias =
      epilogue == epilogue::Bias || epilogue == epilogue::GeluAuxBias;
  double largest = 0;
  for (std::uint64_t batch = 0; batch < call.d.batch; ++batch) {
    auto getA = [&](std::uint64_t i, std::uint64_t l) {
      return x.isTransposed(desc::TransA) ? read(call.a, call.pa, batch, l, i)
                                          : read(call.a, call.pa, batch, i, l);
    };
    auto getB = [&](std::uint64_t l, std::uint64_t j) {
      return x.isTransposed(desc::TransB) ? read(call.b, call.pb, batch, j, l)
                                          : read(call.b, call.pb, batch, l, j);
    };
    std::vector<double> gradient(m);
    for (std::uint64_t j = 0; j < n; ++j)
      for (std::uint64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (std::uint64_t l = 0; l < k; ++l) {
          double one = getA(i, l), other = getB(l, j);
          if (isTf32) {
            one = toTf32(one);
            other = toTf32(other);
          }
          if (isFp8(call.a.type))
            one *= getScale(desc, desc::AScaleMode, desc::AScalePointer, m, i,
                            k, l) *
                   getScale(desc, desc::BScaleMode, desc::BScalePointer, n, j,
                            k, l);
          sum += one * other;
        }
        sum *= call.alpha;
        if (call.beta != 0)
          sum += call.beta * read(call.c, call.pc, batch, i, j);
        if (addsBias)
          sum += decode(biasType, findMemory(bias + i * biasBytes, biasBytes));
        char *saved = nullptr;
        if (x.hasAux())
          saved = findMemory(aux + (batch * desc.get(desc::AuxBatchStride) +
                                    j * desc.get(desc::AuxLd) + i) *
                                       auxBytes,
                             auxBytes);
        if (epilogue == epilogue::GeluAux ||
            epilogue == epilogue::GeluAuxBias) {
          encode(auxType, sum, saved);
          sum = gelu(sum);
        } else if (saved) {
          sum *= geluDerivative(decode(auxType, saved));
        }
        gradient[i] += sum;
        largest = std::max(largest, std::fabs(sum));
        if (isFp8(call.d.type))
          if (Address factor = desc.get(desc::DScalePointer))
            sum *= readF32(factor, 0);
        auto bytes = static_cast<std::size_t>(getByteSize(call.d.type));
        Address at = static_cast<Address>(static_cast<std::int64_t>(batch) *
                                          call.d.batchStride) +
                     j * static_cast<Address>(call.d.ld) + i;
        encode(call.d.type, sum, findMemory(call.pd + at * bytes, bytes));
      }
    auto write = [&](std::uint64_t index, double value) {
      encode(biasType, value, findMemory(bias + index * biasBytes, biasBytes));
    };
    if (epilogue == epilogue::DGeluBGrad)
      for (std::uint64_t i = 0; i < m; ++i)
        write(i, gradient[i]);
    if (epilogue == epilogue::BGradA || epilogue == epilogue::BGradB)
      for (std::uint64_t i = 0; i < (epilogue == epilogue::BGradA ? m : n);
           ++i) {
        double sum = 0;
        for (std::uint64_t l = 0; l < k; ++l)
          sum += epilogue == epilogue::BGradA ? getA(i, l) : getB(l, i);
        write(i, sum);
      }
  }
  if (Address amax = desc.get(desc::AmaxDPointer))
    encode(type::F32, largest, findMemory(amax, 4));
}
