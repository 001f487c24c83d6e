//===- CastCost.h - Cost of emulated float casts ----------------*- C++ -*-===//

#ifndef BINADE_CODEGEN_CASTCOST_H
#define BINADE_CODEGEN_CASTCOST_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::binade {

/// Number of integer operations that convert one element.
struct CastCost {
  unsigned encode = 0; ///< Saturating cast from f32.
  unsigned decode = 0; ///< Cast to f32.
};

/// Returns the cost of the casts between f32 and `format`, a float of at most 8
/// bits, on a target without instructions for them.
CastCost getCastCost(FloatType format);

} // namespace mlir::binade

#endif // BINADE_CODEGEN_CASTCOST_H
