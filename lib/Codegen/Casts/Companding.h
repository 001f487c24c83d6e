//===- Companding.h - Integers spaced by a function -------------*- C++ -*-===//
//
// The operations, and their order, are part of the format
// (`#binade.companded`).
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_CASTS_COMPANDING_H
#define BINADE_LIB_CODEGEN_CASTS_COMPANDING_H

#include "../Lanes.h"
#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Returns the i8 code of `x`, an element, or its square root if the format
/// takes roots, that has been divided by the scale.
IntLanes encodeCompanded(FloatLanes x, CompandedAttr format);

/// Returns the element with an i8 code.
FloatLanes decodeCompanded(IntLanes code, CompandedAttr format,
                           FloatLanes scale);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_COMPANDING_H
