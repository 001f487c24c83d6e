//===- Results.cpp - Results of programs other than the step --------------===//

#include "Results.h"
#include "binade/IR/EraseDead.h"
#include "binade/IR/PortAttributes.h"

using namespace mlir;
using namespace mlir::binade;

func::FuncOp mlir::binade::copyStep(func::FuncOp step, StringRef name,
                                    IRMapping &mapping) {
  func::FuncOp copy = step.clone(mapping);
  copy.setName(name);
  step->getParentOfType<ModuleOp>().insert(std::next(step->getIterator()),
                                           copy);
  removeInitialValues(copy);
  return copy;
}

void mlir::binade::removeInitialValues(func::FuncOp program) {
  PortAttributes attributes(program);
  for (unsigned index = 0; index < program.getNumArguments(); ++index)
    attributes.setOfArgument(index, kInitAttr, {});
  attributes.apply();
}

void mlir::binade::replaceResults(func::FuncOp function,
                                  ArrayRef<NewResult> results) {
  (void)function.eraseResults(BitVector(function.getNumResults(), true));
  function.front().getTerminator()->setOperands({});
  addResults(function, results);
  eraseDead(function);
  BitVector unused(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
  (void)function.eraseArguments(unused);
}

FailureOr<func::FuncOp> mlir::binade::findStepToAccumulate(ModuleOp module,
                                                           int64_t batches) {
  if (batches < 1)
    return module.emitError("expected at least one batch per step, got ")
           << batches;
  if (batches == 1 || module.lookupSymbol(kAccumulationName))
    return func::FuncOp();
  return module.lookupSymbol<func::FuncOp>(kStepName);
}

void mlir::binade::makeAccumulation(func::FuncOp function,
                                    SmallVector<NewResult> results,
                                    int64_t batches) {
  for (Role role : {Role::Buffer, Role::Rng})
    for (const Port &port : getResults(function, role))
      results.push_back(
          {role, port.name.str(), getResultValue(function, port.index)});
  if (std::optional<Port> loss = findResult(function, Role::Metric, "loss"))
    results.push_back(
        {Role::Metric, "batch_loss", getResultValue(function, loss->index)});
  replaceResults(function, results);
  function->setAttr(kBatchesAttr,
                    Builder(function.getContext()).getI64IntegerAttr(batches));
}
