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
/// Whether `op` is a concatenation whose operands are written into its result.
bool isElidedConcat(Operation *op);

/// Returns the place into which the producer of `value` writes it: its own
/// memory, or, of a record with strides, the memory of an elided transpose that
/// is its only reader, directly or through reshapes, or a part of an elided
/// concatenation. Returns nothing if a reshape merges axes that are not
/// contiguous there.
std::optional<Strided> findWrittenPlace(Value value);

/// Returns the place of the elements of `value` if strides replace the ops for
/// which `isElided` is true; nothing if a reshape merges axes that are not
/// contiguous.
std::optional<Strided> findStrides(Value value,
                                   function_ref<bool(Operation *)> isElided);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_LAYOUT_STRIDES_H
