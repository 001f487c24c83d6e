//===- InternalError.h - Errors that are bugs in Binade ---------*- C++ -*-===//

#ifndef BINADE_IR_INTERNALERROR_H
#define BINADE_IR_INTERNALERROR_H

#include "mlir/IR/Diagnostics.h"

namespace mlir::binade {

/// Reports a bug in Binade, as opposed to invalid input. Programs that report
/// one exit with code 70.
InFlightDiagnostic emitInternalError(Location location);

} // namespace mlir::binade

#endif // BINADE_IR_INTERNALERROR_H
