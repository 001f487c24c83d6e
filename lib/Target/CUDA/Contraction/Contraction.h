//===- Contraction.h - Contractions as data ---------------------*- C++ -*-===//
//
// To kernels, matmuls and convolutions are the same: rows of one operand are
// multiplied by columns of the other, each called an entry, and summed over the
// terms of the contraction. The address of the element of an entry and a term
// is described by data, so that a convolution reads its windows in place
// without an im2col copy.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_TARGET_CUDA_CONTRACTION_CONTRACTION_H
#define BINADE_LIB_TARGET_CUDA_CONTRACTION_CONTRACTION_H

#include "binade/Target/GpuContractions.h"
#include "mlir/Support/LLVM.h"

namespace mlir::binade {

/// A digit of the index of an entry or a term, the last one varying fastest:
/// its size, and its stride in memory, in elements.
struct Axis {
  int64_t size, stride;
};

/// An axis of memory whose position depends on an entry and a term: it is
/// (entryFactor * digit of the entry + termFactor * digit of the term + offset)
/// / divisor. If this is not an integer, or not in [0, size), the element is 0.
/// The digits have stride 0.
struct Window {
  unsigned entryAxis, termAxis;
  int64_t entryFactor, termFactor, offset, divisor;
  int64_t size, stride;
};

/// A tensor as a matrix of entries and terms. Those of the result are its rows
/// and columns.
struct Operand {
  ::binade::DType dtype = ::binade::DType::F32;
  int64_t alignment = 1;
  SmallVector<Axis> entries, terms;
  SmallVector<Window> windows;
  SmallVector<int64_t> batch; ///< Strides of the batch axes.

  /// Returns the number of elements from the first to the last.
  int64_t countElements(ArrayRef<int64_t> batchSizes) const;
  enum Direction { Entries, Terms };
  /// Returns the largest number of elements, at most `most`, that one access
  /// can load along the last digit of entries or terms.
  int64_t getWidth(Direction along, int64_t most) const;
};

/// A batched contraction of two operands to a matrix of m by n, over k terms.
struct Contraction {
  SmallVector<int64_t> batch;
  int64_t m = 1, n = 1, k = 1;
  Operand lhs, rhs, out;
  std::optional<Operand> bias; ///< Its terms are the columns.
  /// Scales of the operands' elements. The digits within a block that shares a
  /// scale have stride 0.
  std::optional<Operand> lhsScale, rhsScale;
  /// Number of terms whose sum is multiplied by the scales; 0: all terms.
  int64_t scaledTerms = 0;
  bool accumulate = false, workspace = false;

  int64_t countBatches() const;
};

Contraction getContraction(const GpuMatmul &product);
Contraction getContraction(const GpuConvolution &convolution);

/// How the result is distributed to blocks and threads.
struct Tiling {
  /// The format in which elements are multiplied: F16 and BF16 by tensor cores,
  /// F32 by fma instructions.
  ::binade::DType format = ::binade::DType::F32;
  int64_t rows, columns; ///< Of the tile of a block.
  int64_t step;          ///< Terms that a block processes at a time.
  int64_t threads;
  int64_t warpRows = 1, warpColumns = 1; ///< Warps along the sides.
  int64_t rowTiles, columnTiles, steps;
  int64_t scaledSteps; ///< Steps whose sum is multiplied by scales.
  /// Blocks that share the terms of a tile (split-K), and the steps of each.
  int64_t splits = 1, splitSteps;

  bool usesMatrixUnits() const { return format != ::binade::DType::F32; }
};

Tiling chooseTiling(const Contraction &contraction);
int64_t getWorkspaceBytes(const Contraction &contraction);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_CONTRACTION_CONTRACTION_H
