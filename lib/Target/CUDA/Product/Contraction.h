//===- Contraction.h - what is multiplied, wherever it lies -----*- C++ -*-===//
//
// Matrix products and convolutions are one to the kernels: the rows of one
// operand with the columns of the other, each an entry, over the terms of a
// sum. Where the element of an entry and a term lies in memory is data. So a
// convolution multiplies its windows where they are, and nothing is copied.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_TARGET_CUDA_PRODUCT_CONTRACTION_H
#define BINADE_LIB_TARGET_CUDA_PRODUCT_CONTRACTION_H

#include "binade/Target/GpuContractions.h"
#include "mlir/Support/LLVM.h"

namespace mlir::binade {

/// A digit of the number of an entry or a term, the last the fastest: how many
/// there are, and the elements of memory from one to the next.
struct Axis {
  int64_t size, stride;
};

/// An axis of memory along which an entry and a term together say where:
/// at (entryFactor * digit of the entry + termFactor * digit of the term
/// + offset) / divisor. Where that is no number or not below `size`, the
/// element is 0. The digits have stride 0.
struct Window {
  unsigned entryAxis, termAxis;
  int64_t entryFactor, termFactor, offset, divisor;
  int64_t size, stride;
};

/// A tensor as a matrix of entries and terms; the result's are its rows and
/// columns.
struct Operand {
  ::binade::DType dtype = ::binade::DType::F32;
  int64_t alignment = 1;
  SmallVector<Axis> entries, terms;
  SmallVector<Window> windows;
  SmallVector<int64_t> batch; ///< Strides.

  /// From the first element to behind the last.
  int64_t countElements(ArrayRef<int64_t> batchSizes) const;
  enum Direction { Entries, Terms };
  /// The most elements, up to `most`, that can be accessed at once along the
  /// last digit of entries or terms.
  int64_t getWidth(Direction along, int64_t most) const;
};

struct Contraction {
  SmallVector<int64_t> batch;
  int64_t m = 1, n = 1, k = 1;
  Operand lhs, rhs, out;
  std::optional<Operand> bias; ///< Its terms are columns.
  /// What is multiplied by an element of an operand: their digits within what
  /// shares one have stride 0.
  std::optional<Operand> lhsScale, rhsScale;
  /// Terms of a sum that is multiplied by the scales; 0: the whole sum is.
  int64_t scaledTerms = 0;
  bool accumulate = false, workspace = false;

  int64_t countBatches() const;
};

Contraction getContraction(const GpuProduct &product);
Contraction getContraction(const GpuConvolution &convolution);

/// Who computes what of the result.
struct Tiling {
  /// What elements are multiplied in: F16 and BF16 by the matrix units, F32 by
  /// the others.
  ::binade::DType format = ::binade::DType::F32;
  int64_t rows, columns; ///< Of a block's tile.
  int64_t step;          ///< Terms that a block has at a time.
  int64_t threads;
  int64_t warpRows = 1, warpColumns = 1; ///< Warps along the tile's sides.
  int64_t rowTiles, columnTiles, steps;
  int64_t scaledSteps; ///< Whose sum is multiplied by scales.
  /// Blocks that share the terms of a tile, and the steps of each.
  int64_t splits = 1, splitSteps;

  bool usesMatrixUnits() const { return format != ::binade::DType::F32; }
};

Tiling chooseTiling(const Contraction &contraction);
int64_t getWorkspaceBytes(const Contraction &contraction);

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_PRODUCT_CONTRACTION_H
