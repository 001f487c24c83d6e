//===- Strides.h - where the elements of a moved value are ------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_LAYOUT_STRIDES_H
#define BINADE_LIB_KERNELS_LAYOUT_STRIDES_H

#include "binade/IR/Movement.h"

namespace mlir::binade {

/// Row-major strides of `shape`, in elements.
std::vector<int64_t> getStrides(ArrayRef<int64_t> shape);

/// Element i, j... of a value is element `offset + i * strides[0] + j *
/// strides[1] + ...` of the memory of `base`.
struct Strided {
  Value base;
  int64_t offset = 0;
  SmallVector<int64_t> strides;
};

/// Whether strides can stand for `op`: a transpose or a slice.
bool isStrided(Operation *op);
/// Whether strides stand for `op`.
bool isElided(Operation *op);

/// Where the elements of `value` are if strides stand for the ops that
/// `isElided` names; nothing where a reshape joins axes that are apart.
std::optional<Strided> findStrides(Value value,
                                   function_ref<bool(Operation *)> isElided);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_LAYOUT_STRIDES_H
