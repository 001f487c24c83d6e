//===- MissingFunction.h - Passes that run too early or late ----*- C++ -*-===//

#ifndef BINADE_IR_MISSINGFUNCTION_H
#define BINADE_IR_MISSINGFUNCTION_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::binade {

/// Reports that `module` lacks the function `name`, which a pass needs
/// `purpose`
/// ("to expand"), and which pipelines of binade-opt write it. The error does
/// not show the module, which may be long.
InFlightDiagnostic emitMissingFunction(ModuleOp module, StringRef name,
                                       StringRef purpose);

} // namespace mlir::binade

#endif // BINADE_IR_MISSINGFUNCTION_H
