//===- CorrectedBlocks.h - Blocks whose scales are corrected ----*- C++ -*-===//

#ifndef BINADE_IR_CORRECTEDBLOCKS_H
#define BINADE_IR_CORRECTEDBLOCKS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// The blocks of a tensor in a format that `correctsScales`. A row or column of
/// the tensor has `count` blocks. They are divided into `groups` of `size`
/// consecutive blocks, which share a correction; the last group may be smaller.
struct CorrectedBlocks {
  /// `scaleShape` is the shape of the scales of the tensor.
  CorrectedBlocks(QuantizedAttr format, ArrayRef<int64_t> scaleShape) {
    bool isColumn = format.getExtent()[0] > 1;
    if (isColumn && !scaleShape.empty()) {
      inner = scaleShape.back();
      scaleShape = scaleShape.drop_back();
    }
    if (!scaleShape.empty()) {
      count = scaleShape.back();
      outer = ShapedType::getNumElements(scaleShape.drop_back());
    }
    size = std::min(count, QuantizedAttr::kCorrectedBlocks);
    groups = llvm::divideCeil(count, size);
  }

  /// The shapes of scales: without groups, filled up to whole groups, and with
  /// an axis for the blocks of a group.
  SmallVector<int64_t> getFlat() const { return {outer, count, inner}; }
  SmallVector<int64_t> getPadded() const {
    return {outer, groups * size, inner};
  }
  SmallVector<int64_t> getArranged() const {
    return {outer, groups, size, inner};
  }
  static constexpr int64_t kBlockAxis = 2; ///< Of `getArranged`.

  int64_t outer = 1, count = 1, inner = 1, size, groups;
};

} // namespace mlir::binade

#endif // BINADE_IR_CORRECTEDBLOCKS_H
