//===- BlockScales.h - Scales below the scale of a tensor -------*- C++ -*-===//

#ifndef BINADE_LIB_IR_OPS_BLOCKSCALES_H
#define BINADE_LIB_IR_OPS_BLOCKSCALES_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// The scales of a tensor that has a scale in E4M3 for each block, or a scale
/// above those of blocks.
struct BlockScales {
  Value scale;       ///< Of each block, in the format of scales.
  Value factor;      ///< Elements are multiplied by it; f32.
  Value tensorScale; ///< A scalar; null without a scale of the tensor.
};

/// Builds the scales of blocks whose largest magnitudes are `amax`, for a
/// format that `hasBlockScales`. `largest`, the largest magnitude of the
/// tensor, is null without a scale of the tensor.
BlockScales chooseBlockScales(ImplicitLocOpBuilder &b, Value amax,
                              Value largest, QuantizedAttr format);

} // namespace mlir::binade

#endif // BINADE_LIB_IR_OPS_BLOCKSCALES_H
