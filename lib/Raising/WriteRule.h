//===- WriteRule.h - an update as a rule ------------------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_WRITERULE_H
#define BINADE_LIB_RAISING_WRITERULE_H

#include "FindUpdates.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::binade {

/// Writes rules into a module, one for all updates that are alike.
class RuleWriter {
public:
  explicit RuleWriter(ModuleOp module) : module(module) {}

  /// The rule of `update`, a part of the step `parts` of `function`. Its
  /// formulas have the operations of the graph in their order: numbers, which
  /// depend on the step alone, are computed in f32 as there. Null where it
  /// would not keep the better part of the parameter: then the result is
  /// something else, such as the gradient of a loss that has the squares of
  /// parameters. Null, too, where a given number is no learning rate: a change
  /// of the parameter is not proportional to it, or states depend on it. One
  /// that is becomes the hyper-parameter `lr`, which has no default.
  OptimizerOp write(func::FuncOp function, const StepParts &parts,
                    const Update &update);

  /// Erases what was written.
  void erase();

private:
  ModuleOp module;
  llvm::StringMap<OptimizerOp> written;
};

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_WRITERULE_H
