//===- ImportedRules.h - Rules imported with the graph ----------*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_IMPORTEDRULES_H
#define BINADE_LIB_OPTIMIZER_IMPORTEDRULES_H

#include "Settings.h"

namespace mlir::binade {

/// Erases a rule and its functions.
void eraseRule(OptimizerOp rule);

/// Detaches the imported rules from the parameters of `function`. If they are
/// used and all of `parameters` have one, stores each in its parameter and
/// returns them in the order of the parameters; otherwise erases them from the
/// module.
SmallVector<OptimizerOp>
takeImportedRules(func::FuncOp function,
                  MutableArrayRef<TrainedParameter> parameters, bool areUsed);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_IMPORTEDRULES_H
