//===- Strides.h - Strides of moved values ----------------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_LAYOUT_STRIDES_H
#define BINADE_LIB_KERNELS_LAYOUT_STRIDES_H

#include "binade/IR/Movement.h"

namespace mlir::binade {

/// Returns the row-major strides of `shape`, in elements.
std::vector<int64_t> getStrides(ArrayRef<int64_t> shape);

/// Element i, j ... of a value is element `offset + i * strides[0] + j *
/// strides[1] + ...` of the memory of `base`.
struct Strided {
  Value base;
  int64_t offset = 0;
  SmallVector<int64_t> strides;
};

/// Whether strides can replace `op`: a transpose or a slice.
bool isStrided(Operation *op);
/// Whether strides replace `op`.
bool isElided(Operation *op);

/// Returns the transpose that is the only reader of `value`, directly or
/// through a reshape; null for other values.
TransposeOp findTransposeOf(Value value);
/// Returns the strides with which the producer of `value` writes the result of
/// that transpose; nothing if the reshape merges axes that are not contiguous.
std::optional<SmallVector<int64_t>> findWriteStrides(Value value,
                                                     TransposeOp transpose);

/// Returns the place of the elements of `value` if strides replace the ops for
/// which `isElided` is true; nothing if a reshape merges axes that are not
/// contiguous.
std::optional<Strided> findStrides(Value value,
                                   function_ref<bool(Operation *)> isElided);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_LAYOUT_STRIDES_H
