//===- RandomRounding.h - Stochastic rounding -------------------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_CASTS_RANDOMROUNDING_H
#define BINADE_LIB_CODEGEN_CASTS_RANDOMROUNDING_H

#include "../Lanes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::binade {

/// Rounds f32 values stochastically to the precision of `format`. Results may
/// exceed its largest value; the caller saturates them or casts them to
/// infinity. A value becomes the neighbour further from zero if `random`,
/// uniform in [0, 1), is less than its distance from the other neighbour in
/// units of the last place. Values that are not finite do not change.
FloatLanes roundRandomly(FloatLanes x, FloatType format, FloatLanes random);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_RANDOMROUNDING_H
