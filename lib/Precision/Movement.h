//===- Movement.h - What a value shows in another form ----------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_MOVEMENT_H
#define BINADE_LIB_PRECISION_MOVEMENT_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// The operand that `value` shows in another shape, order or format; null where
/// it is something of its own.
Value getMoved(Value value);

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_MOVEMENT_H
