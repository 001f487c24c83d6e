//===- WriteRule.h - Updates as optimizer rules -----------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_WRITERULE_H
#define BINADE_LIB_RAISING_WRITERULE_H

#include "FindUpdates.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::binade {

/// Writes optimizer rules into a module. Equal updates share one rule.
class RuleWriter {
public:
  explicit RuleWriter(ModuleOp module) : module(module) {}

  /// Returns the rule of `update`, a part of the step `parts` of `function`.
  /// Its formulas have the operations of the graph in their order; scalars are
  /// computed in f32, as in the graph. A learning rate becomes the
  /// hyper-parameter `lr`, which has no default.
  ///
  /// Returns null if the rule would not keep most of the parameter: the result
  /// is then something else, such as the gradient of a loss with squares of
  /// parameters. Also returns null if a given scalar is not a learning rate:
  /// the change of the parameter is not proportional to it, or states depend on
  /// it.
  OptimizerOp write(func::FuncOp function, const StepParts &parts,
                    const Update &update);

  /// Erases the written rules.
  void erase();

private:
  ModuleOp module;
  llvm::StringMap<OptimizerOp> written;
};

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_WRITERULE_H
