//===- EvaluateFormula.cpp - Constant evaluation of formulas --------------===//

#include "EvaluateFormula.h"

using namespace mlir;

SmallVector<Attribute>
mlir::binade::evaluateFormula(func::FuncOp formula,
                              ArrayRef<Attribute> arguments) {
  DenseMap<Value, Attribute> known;
  for (auto [argument, value] :
       llvm::zip_equal(formula.getArguments(), arguments))
    known[argument] = value;
  auto look = [&](Value value) { return known.lookup(value); };
  for (Operation &op : formula.front().without_terminator()) {
    SmallVector<OpFoldResult> folded;
    SmallVector<Attribute> operands =
        llvm::map_to_vector(op.getOperands(), look);
    if (failed(op.fold(operands, folded)) || folded.size() != 1)
      return {};
    Attribute value = dyn_cast<Attribute>(folded.front());
    known[op.getResult(0)] = value ? value : look(cast<Value>(folded.front()));
  }
  auto results =
      llvm::map_to_vector(formula.front().getTerminator()->getOperands(), look);
  return llvm::is_contained(results, Attribute()) ? SmallVector<Attribute>()
                                                  : results;
}
