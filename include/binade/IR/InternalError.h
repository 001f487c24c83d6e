//===- InternalError.h - errors that are bugs -------------------*- C++ -*-===//

#ifndef BINADE_IR_INTERNALERROR_H
#define BINADE_IR_INTERNALERROR_H

#include "mlir/IR/Diagnostics.h"

namespace mlir::binade {

/// An error that is a bug of Binade, whatever its input was. Programs end with
/// the exit code of these, 70.
InFlightDiagnostic emitInternalError(Location location);

} // namespace mlir::binade

#endif // BINADE_IR_INTERNALERROR_H
