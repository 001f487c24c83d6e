//===- NarrowActivations.h - GELU rounded to 16 bits ------------*- C++ -*-===//
//
// Formulas for results that are rounded to 16 bits or fewer. The functions in
// them may have errors relative to their values, so that nothing may cancel:
// the distribution function of x < 0 is its upper tail at |x|, not 1 - erf.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_IR_OPS_NARROWACTIVATIONS_H
#define BINADE_LIB_IR_OPS_NARROWACTIVATIONS_H

#include "binade/IR/Build.h"

namespace mlir::binade {

/// Returns gelu(x).
Value buildNarrowGelu(ImplicitLocOpBuilder &b, Value x,
                      Approximation approximation);

} // namespace mlir::binade

#endif // BINADE_LIB_IR_OPS_NARROWACTIVATIONS_H
