//===- ImportedRules.h - rules that came with the graph ---------*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_IMPORTEDRULES_H
#define BINADE_LIB_OPTIMIZER_IMPORTEDRULES_H

#include "Settings.h"

namespace mlir::binade {

/// Erases a rule and its functions.
void eraseRule(OptimizerOp rule);

/// Takes from the parameters of `function` the rules that they came with. Where
/// these are used and all of `parameters` have one, they are written there and
/// returned, in the order of the parameters; otherwise they leave the module.
SmallVector<OptimizerOp>
takeImportedRules(func::FuncOp function,
                  MutableArrayRef<TrainedParameter> parameters, bool areUsed);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_IMPORTEDRULES_H
