//===- Views.h - Which element of a tensor is read where --------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_VIEWS_H
#define BINADE_LIB_RAISING_VIEWS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Elements of a tensor over the places of a frame, which is a shape: at place
/// (i, j, ...) element `strides[0] i + strides[1] j + ...` of `value`, counted
/// in row-major order. Along axes of length 1 strides are 0, so that views are
/// the same if they are equal.
struct View {
  Value value;
  SmallVector<int64_t> strides;

  bool operator==(const View &other) const {
    return value == other.value && strides == other.strides;
  }
};

/// Strides of a tensor of shape `frame` itself.
SmallVector<int64_t> getRowMajor(ArrayRef<int64_t> frame);

/// The same elements where reshapes, broadcasts, transposes and lookups of all
/// rows took them from, as far as strides can say it. The ops on the way are
/// appended to `passed`.
View trace(View view, ArrayRef<int64_t> frame,
           SmallVectorImpl<Operation *> &passed);
View trace(View view, ArrayRef<int64_t> frame);

/// All elements of `value`, in row-major order, over a frame of as many places.
View traceWhole(Value value, ArrayRef<int64_t> frame);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_VIEWS_H
