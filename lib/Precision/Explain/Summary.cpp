//===- Summary.cpp - Counts of the chosen formats -------------------------===//

#include "binade/Precision/Summary.h"
#include "binade/IR/Binade.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the format to which the first operand with a chosen format is
/// rounded, or the type of the first such result; null if there is none.
static Type getChosenFormat(PrecisionOpInterface op) {
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (op.getOperandFormat(index) == FormatRole::Chosen)
      return getComputeFormat(op, operand.getType());
  for (auto [index, result] : llvm::enumerate(op->getResults()))
    if (op.getResultFormat(index) == FormatRole::Chosen)
      return getElementTypeOrSelf(result.getType());
  return {};
}

PrecisionSummary mlir::binade::summarizePrecision(func::FuncOp function) {
  PrecisionSummary summary;
  function.walk([&](Operation *op) {
    if (isa<CastOp>(op))
      ++summary.casts[llvm::to_string(
          getElementTypeOrSelf(op->getResult(0).getType()))];
    else if (auto round = dyn_cast<RoundToOp>(op))
      ++summary.casts[llvm::to_string(round.getFormat())];
    else if (auto decided = dyn_cast<PrecisionOpInterface>(op))
      if (Type format = getChosenFormat(decided))
        ++summary.ops[llvm::to_string(format)];
  });
  return summary;
}
