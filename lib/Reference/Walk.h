//===- Walk.h - Iteration over two tensors ----------------------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_WALK_H
#define BINADE_LIB_REFERENCE_WALK_H

#include "binade/Reference/Tensor.h"

namespace mlir::binade {

/// Iterates over the elements of `shape` in row-major order, and in parallel
/// over elements of another tensor, starting at `start` with `strides`.
struct TensorWalk {
  SmallVector<int64_t> shape, strides;
  int64_t start = 0;

  /// Calls `use(row-major index, index in the other tensor)`.
  template <typename Use> void forEach(Use use) const {
    SmallVector<int64_t> position(shape.size(), 0);
    int64_t count = ShapedType::getNumElements(shape), other = start;
    for (int64_t i = 0; i < count; ++i) {
      use(i, other);
      for (int64_t axis = static_cast<int64_t>(shape.size()) - 1; axis >= 0;
           --axis) {
        other += strides[axis];
        if (++position[axis] < shape[axis])
          break;
        other -= strides[axis] * shape[axis];
        position[axis] = 0;
      }
    }
  }

  /// Iterates over a box of shape `part` at `offsets` and `steps` in a tensor
  /// of shape `whole`.
  static TensorWalk overBox(ArrayRef<int64_t> part, ArrayRef<int64_t> whole,
                            ArrayRef<int64_t> offsets,
                            ArrayRef<int64_t> steps) {
    TensorWalk walk{SmallVector<int64_t>(part), getRowMajorStrides(whole)};
    for (auto [axis, stride] : llvm::enumerate(walk.strides)) {
      walk.start += offsets[axis] * stride;
      stride *= steps[axis];
    }
    return walk;
  }

  /// Iterates over a tensor of `shape` and the elements of its reduction over
  /// `axes`.
  static TensorWalk overReduced(ArrayRef<int64_t> shape,
                                ArrayRef<int64_t> axes) {
    SmallVector<int64_t> kept(shape);
    for (int64_t axis : axes)
      kept[axis] = 1;
    TensorWalk walk{SmallVector<int64_t>(shape), getRowMajorStrides(kept)};
    for (int64_t axis : axes)
      walk.strides[axis] = 0;
    return walk;
  }
};

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_WALK_H
