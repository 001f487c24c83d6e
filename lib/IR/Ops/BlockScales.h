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

/// The same for a format that `comparesScales`: chooses the scale with the
/// smaller error of the elements `x`, which `arranged` encodes. `addUp` sums
/// squares of the shape of `x` in each block.
BlockScales chooseBetterScales(ImplicitLocOpBuilder &b, Value amax,
                               Value largest, Value x, QuantizedAttr format,
                               QuantizedAttr arranged,
                               function_ref<Value(Value)> addUp);

/// Corrects `scales`, those by which `arranged` encodes the elements `x` of a
/// tensor with the largest magnitude `largest`, as rule `rounded_eden` defines:
/// replaces `scale`, and keeps the factors of elements. `addUp` is as above,
/// and `random` has the random number of each scale, in their shape.
void correctScales(ImplicitLocOpBuilder &b, BlockScales &scales, Value largest,
                   Value x, QuantizedAttr format, QuantizedAttr arranged,
                   function_ref<Value(Value)> addUp, Value random);

/// Builds the sums of blocks along axes 1 and 3 of `x`, as `rounded_four_six`
/// defines their order. Axes of length 1 remain. `isColumn` if blocks have one
/// column, which is added like a row.
Value buildSumsInOrder(ImplicitLocOpBuilder &b, Value x, bool isColumn);

} // namespace mlir::binade

#endif // BINADE_LIB_IR_OPS_BLOCKSCALES_H
