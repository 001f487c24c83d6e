//===- ParameterKinds.cpp - Kinds of parameters ---------------------------===//

#include "ParameterKinds.h"
#include "binade/IR/Build.h"
#include "binade/IR/Rules.h"

using namespace mlir;
using namespace mlir::binade;

/// Whether `is` holds for an op of the forward pass that reads `parameter`,
/// directly or after views, transposes, casts or broadcasts.
static bool
isRead(Value parameter,
       function_ref<bool(PrecisionOpInterface reader, unsigned operand)> is) {
  SmallVector<Value> pending = {parameter};
  while (!pending.empty())
    for (OpOperand &use : pending.pop_back_val().getUses()) {
      Operation *reader = use.getOwner();
      if (getPhase(reader) != Phase::Forward)
        continue;
      if (isa<BroadcastOp>(reader) ||
          (reader->getNumResults() == 1 && getMoved(reader->getResult(0))))
        pending.push_back(reader->getResult(0));
      else if (auto op = dyn_cast<PrecisionOpInterface>(reader);
               op && is(op, use.getOperandNumber()))
        return true;
    }
  return false;
}

ParameterKind mlir::binade::getParameterKind(Value parameter) {
  if (isRead(parameter, [](PrecisionOpInterface reader, unsigned operand) {
        return reader.getOperandRole(operand) == TensorRole::Embedding;
      }))
    return ParameterKind::Embedding;
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(parameter.getType()).getShape();
  if (llvm::count_if(shape, [](int64_t length) { return length > 1; }) > 1)
    return ParameterKind::Matrix;
  bool scales =
      isRead(parameter, [](PrecisionOpInterface reader, unsigned operand) {
        return reader.isFactor(operand);
      });
  return scales ? ParameterKind::Scale : ParameterKind::Shift;
}

bool mlir::binade::isFor(OptimizerOp rule, ParameterKind kind) {
  ArrayAttr kinds = rule.getKindsAttr();
  return !kinds || llvm::is_contained(
                       kinds, ParameterKindAttr::get(rule.getContext(), kind));
}

/// Returns the forms of `prepare` that fit a parameter, the most specific one
/// first.
static SmallVector<StringRef> getForms(ParameterKind kind,
                                       ArrayRef<int64_t> shape) {
  switch (kind) {
  case ParameterKind::Matrix: {
    auto [rows, columns] = getMatrix(shape);
    return rows > columns ? SmallVector<StringRef>{"tall"}
                          : SmallVector<StringRef>{};
  }
  case ParameterKind::Embedding:
    return {"embedding"};
  case ParameterKind::Scale:
    return {"scale", "vector"};
  case ParameterKind::Shift:
    return {"shift", "vector"};
  }
  llvm_unreachable("all kinds are listed");
}

func::FuncOp mlir::binade::choosePrepare(OptimizerOp rule, ParameterKind kind,
                                         ArrayRef<int64_t> shape,
                                         StringRef form, StringRef mode) {
  SmallVector<StringRef> forms = getForms(kind, shape);
  forms.push_back(form);
  for (StringRef name : forms) {
    std::string whole = name.str();
    if (!mode.empty())
      whole += (name.empty() ? "" : ".") + mode.str();
    if (func::FuncOp found = findPrepare(rule, whole))
      return found;
  }
  return {};
}
