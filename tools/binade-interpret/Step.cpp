//===- Step.cpp - Wrap a function as a training step ----------------------===//

#include "Step.h"
#include "binade/IR/Interface.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Reference/Interpreter.h"

using namespace mlir;
using namespace mlir::binade;

OwningOpRef<ModuleOp> makeStep(ModuleOp module, StringRef name) {
  module.getContext()->appendDialectRegistry(makeRegistry());
  module.getContext()->loadAllAvailableDialects();
  OwningOpRef<ModuleOp> copy(module.clone());
  auto function = copy->lookupSymbol<func::FuncOp>(name);
  for (func::FuncOp program : getPrograms(*copy))
    if (program != function)
      program.erase();
  function.setName(kStepName);
  auto describe = [&](Role role, StringRef name) {
    Builder b(module.getContext());
    return b.getDictionaryAttr(
        {b.getNamedAttr(kNameAttr, b.getStringAttr(name)),
         b.getNamedAttr(kRoleAttr, RoleAttr::get(b.getContext(), role))});
  };
  SmallVector<std::string> arguments = getArgumentNames(function),
                           results = getResultNames(function);
  for (auto [index, argument] : llvm::enumerate(arguments))
    function.setArgAttrs(index, describe(Role::Buffer, argument));
  for (auto [index, result] : llvm::enumerate(results))
    function.setResultAttrs(index, describe(Role::Output, result));
  return copy;
}

LogicalResult formKernels(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>(kStepName);
  if (!step.getOps<LaunchOp>().empty())
    return success();
  return runPhases(module, CompilerPhase::Materialize, CompilerPhase::Kernels,
                   CompileOptions());
}
