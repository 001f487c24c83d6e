//===- Results.cpp - What a program beside the step computes --------------===//

#include "Results.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::binade;

func::FuncOp mlir::binade::copyStep(func::FuncOp step, StringRef name,
                                    IRMapping &mapping) {
  func::FuncOp copy = step.clone(mapping);
  copy.setName(name);
  step->getParentOfType<ModuleOp>().insert(std::next(step->getIterator()),
                                           copy);
  for (unsigned i = 0, e = copy.getNumArguments(); i < e; ++i)
    copy.removeArgAttr(i, kInitAttr);
  return copy;
}

void mlir::binade::replaceResults(func::FuncOp function,
                                  ArrayRef<NewResult> results) {
  (void)function.eraseResults(BitVector(function.getNumResults(), true));
  function.front().getTerminator()->setOperands({});
  addResults(function, results);
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  BitVector unused(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
  (void)function.eraseArguments(unused);
}
