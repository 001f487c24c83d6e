//===- ErrorPropagation.cpp - Gradients that an error reaches -------------===//

#include "ErrorPropagation.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

void ErrorPropagation::add(const ErrorPropagation &other) {
  if (!gradient)
    gradient = other.gradient;
  isSeveral |=
      other.isSeveral || (other.gradient && other.gradient != gradient);
}

ErrorPropagationAnalysis::ErrorPropagationAnalysis(Block &body) {
  unsigned count = std::distance(body.begin(), body.end());
  for (Operation &op : llvm::reverse(body)) {
    positions[&op] = --count;
    if (isa<SaveOp>(op) || getPhase(&op) == Phase::Backward)
      reached[&op] = follow(op);
  }
}

unsigned ErrorPropagationAnalysis::getFirstRead(SaveOp save) const {
  Operation *user = findFirstUser(save.getResult());
  return user ? positions.lookup(user) : 0;
}

/// Returns the gradients that an error in the results of `op` reaches. A result
/// with a user outside of the backward pass is a gradient.
ErrorPropagation ErrorPropagationAnalysis::follow(Operation &op) const {
  ErrorPropagation reach;
  for (Value result : op.getResults())
    for (Operation *user : result.getUsers()) {
      auto known = reached.find(user);
      reach.add(known == reached.end() ? ErrorPropagation{result}
                                       : known->second);
    }
  return reach;
}
