//===- Matmul.h - Matmul in f64 ---------------------------------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_MATMUL_H
#define BINADE_LIB_REFERENCE_MATMUL_H

#include "llvm/ADT/ArrayRef.h"

namespace mlir::binade {

/// Computes y[m, n] += lhs[m, k] rhs[k, n]. Adds the terms of each element in
/// order, so that the bits are the same on every CPU.
void accumulateMatmul(llvm::ArrayRef<double> lhs, llvm::ArrayRef<double> rhs,
                      llvm::MutableArrayRef<double> y, int64_t m, int64_t k,
                      int64_t n);

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_MATMUL_H
