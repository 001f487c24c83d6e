//===- RandomRounding.h - rounding to small formats by chance ---*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_CASTS_RANDOMROUNDING_H
#define BINADE_LIB_CODEGEN_CASTS_RANDOMROUNDING_H

#include "../Lanes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::binade {

/// f32 numbers rounded to those of `format`, without its upper bound: to the
/// one further from zero where `random`, uniform in [0, 1), is less than the
/// fraction of the way there. What is not finite stays.
FloatLanes roundRandomly(FloatLanes x, FloatType format, FloatLanes random);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_RANDOMROUNDING_H
