//===- Views.h - Strided views of tensors -----------------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_VIEWS_H
#define BINADE_LIB_RAISING_VIEWS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// A strided view of a tensor over a frame, which is a shape: its element at
/// index (i, j, ...) is the element of `value` with row-major offset
/// `strides[0] i + strides[1] j + ...`. Strides along axes of length 1 are 0,
/// so that equal views compare equal.
struct View {
  Value value;
  SmallVector<int64_t> strides;

  bool operator==(const View &other) const {
    return value == other.value && strides == other.strides;
  }
};

/// Returns the row-major strides of a tensor of shape `frame`.
SmallVector<int64_t> getRowMajor(ArrayRef<int64_t> frame);

/// Traces a view through reshapes, broadcasts, transposes and gathers of all
/// rows to their operand, as far as the result is strided. Appends the
/// traversed ops to `passed`.
View trace(View view, ArrayRef<int64_t> frame,
           SmallVectorImpl<Operation *> &passed);
View trace(View view, ArrayRef<int64_t> frame);

/// Traces all elements of `value`, in row-major order, as a view over `frame`,
/// which has the same number of elements.
View traceWhole(Value value, ArrayRef<int64_t> frame);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_VIEWS_H
