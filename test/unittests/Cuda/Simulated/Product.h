//===- Product.h - Matmuls of the simulated cuBLASLt ------------*- C++ -*-===//

#ifndef BINADE_TEST_CUDA_PRODUCT_H
#define BINADE_TEST_CUDA_PRODUCT_H

#include "Formats.h"
#include "Simulated.h"
#include <map>

struct binade::cuda::lt::Handle {};
struct binade::cuda::lt::MatmulDesc {
  int compute = 0;
  std::map<int, std::uint64_t> attributes = {};

  std::uint64_t get(int attribute, std::uint64_t otherwise = 0) const {
    auto found = attributes.find(attribute);
    return found == attributes.end() ? otherwise : found->second;
  }
};
struct binade::cuda::lt::MatrixLayout {
  int type;
  std::uint64_t rows, columns;
  std::int64_t ld;
  std::uint64_t batch = 1;
  std::int64_t batchStride = 0;
};
struct binade::cuda::lt::Preference {
  std::map<int, std::uint64_t> attributes = {};
};

namespace simulated {

using namespace binade::cuda::lt;

/// The operands of a call, column-major: D[m, n] = op(A)[m, k] op(B)[k, n].
struct Operands {
  const MatmulDesc &desc;
  const MatrixLayout &a, &b, &c, &d;

  bool isTransposed(int attribute) const { return desc.get(attribute) == kOpT; }
  std::uint64_t getM() const { return d.rows; }
  std::uint64_t getN() const { return d.columns; }
  std::uint64_t getK() const {
    return isTransposed(desc::TransA) ? a.rows : a.columns;
  }
  int getEpilogue() const {
    return static_cast<int>(desc.get(desc::Epilogue, epilogue::Default));
  }
  bool hasBias() const {
    int epilogue = getEpilogue();
    return epilogue != epilogue::Default && epilogue != epilogue::GeluAux &&
           epilogue != epilogue::DGelu;
  }
  bool hasAux() const {
    return getEpilogue() >= epilogue::GeluAux &&
           getEpilogue() <= epilogue::DGeluBGrad;
  }
};

/// Returns whether cuBLASLt documents that it supports this on Hopper.
bool isPossible(const Operands &operands);

/// A call of cublasLtMatmul, with copies of its arguments.
struct Call {
  MatmulDesc desc;
  MatrixLayout a, b, c, d;
  Address pa, pb, pc, pd;
  double alpha, beta;
};

/// Computes each element in f64 and rounds it once.
void multiply(const Call &call);

} // namespace simulated

#endif // BINADE_TEST_CUDA_PRODUCT_H
