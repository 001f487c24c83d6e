//===- CastCost.h - what emulated formats take ------------------*- C++ -*-===//

#ifndef BINADE_CODEGEN_CASTCOST_H
#define BINADE_CODEGEN_CASTCOST_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::binade {

/// Operations of integer arithmetic that a conversion of one number is.
struct CastCost {
  unsigned encode = 0; ///< From f32, with saturation.
  unsigned decode = 0; ///< To f32.
};

/// For a float of at most 8 bits, where a target has no instructions for it.
CastCost getCastCost(FloatType format);

} // namespace mlir::binade

#endif // BINADE_CODEGEN_CASTCOST_H
