//===- Summary.cpp - How often each format was chosen ---------------------===//

#include "binade/Precision/Summary.h"
#include "binade/IR/Binade.h"

using namespace mlir;
using namespace mlir::binade;

/// The type that the first value with a chosen format has; null if none has.
static Type getChosenFormat(PrecisionOpInterface op) {
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (op.getOperandFormat(index) == FormatRole::Chosen)
      return getElementTypeOrSelf(operand.getType());
  for (auto [index, result] : llvm::enumerate(op->getResults()))
    if (op.getResultFormat(index) == FormatRole::Chosen)
      return getElementTypeOrSelf(result.getType());
  return {};
}

static std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

PrecisionSummary mlir::binade::summarizePrecision(func::FuncOp function) {
  PrecisionSummary summary;
  function.walk([&](Operation *op) {
    if (isa<CastOp>(op))
      ++summary.casts[print(getElementTypeOrSelf(op->getResult(0).getType()))];
    else if (auto decided = dyn_cast<PrecisionOpInterface>(op))
      if (Type format = getChosenFormat(decided))
        ++summary.ops[print(format)];
  });
  return summary;
}
