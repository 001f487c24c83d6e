//===- Describe.cpp - Decisions as text -----------------------------------===//

#include "binade/Precision/Describe.h"
#include "binade/IR/QuantizedOperands.h"
#include "binade/IR/ScaledOperand.h"
#include "binade/Precision/Biases.h"
#include "binade/Precision/StateFormats.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

std::string mlir::binade::describe(TransformAttr transform) {
  std::string text = "hadamard " + std::to_string(transform.getHadamard());
  switch (transform.getSigns()) {
  case HadamardSigns::None:
    return text + " without signs";
  case HadamardSigns::Fixed:
    return text + " with fixed signs";
  case HadamardSigns::Step:
    return text + " with signs drawn in each step";
  }
  llvm_unreachable("all signs are listed");
}

std::string mlir::binade::describe(AccumulationAttr accumulation) {
  std::string text =
      "accumulator of " + std::to_string(accumulation.getBits()) + " bits";
  if (constexpr int64_t kUsual = 32; accumulation.getStep() != kUsual)
    text += ", " + std::to_string(accumulation.getStep()) + " products a step";
  return accumulation.getPromote() == 0
             ? text + ", never promoted"
             : text + ", promoted every " +
                   std::to_string(accumulation.getPromote()) + " products";
}

std::string mlir::binade::describe(PrecisionAttr decision) {
  FloatType compute = getComputed(decision);
  std::string text = llvm::to_string(compute);
  if (FloatType sums = decision.getAccumulate(); sums && sums != compute)
    text += ", sums " + llvm::to_string(sums);
  if (decision.getResult() != compute)
    text += ", result " + llvm::to_string(decision.getResult());
  SmallVector<std::string> formats;
  if (ArrayAttr operands = decision.getOperands())
    for (auto format : operands.getAsRange<Attribute>())
      if (isa<QuantizedAttr>(format))
        formats.push_back(describeFormat(format));
  for (unsigned i = 0;
       scalesOperands(decision) && i < decision.getOperands().size(); ++i)
    if (std::optional<ScaledOperand> scaled = getScaledOperand(decision, i))
      formats.push_back(describe(*scaled));
  if (!formats.empty())
    text += ", operands " + llvm::join(formats, " x ");
  if (TransformAttr transform = decision.getTransform())
    text += ", " + describe(transform);
  if (AccumulationAttr accumulation = decision.getAccumulation())
    text += ", " + describe(accumulation);
  if (FloatType bias = getBiasFormat(decision))
    text += ", bias " + llvm::to_string(bias);
  if (ClampAttr clamp = decision.getClamp())
    text += (", clamp " + stringifyClamp(clamp.getValue())).str();
  return text;
}

std::string mlir::binade::describeCause(const Explanation &explanation,
                                        unsigned node) {
  PrecisionAttr decision = explanation.getDecision(node);
  std::string text = decision.isPin() ? "pin of the module"
                                      : decision.getRule().getValue().str();
  if (std::string reason = explanation.getReason(node); !reason.empty())
    text += ": " + reason;
  return text;
}

std::string mlir::binade::describe(StorageAttr decision) {
  auto print = [](FloatType format) {
    return format ? llvm::to_string(format) : "f32";
  };
  if (!decision)
    return "f32, states f32";
  std::string text = print(decision.getParameter());
  if (decision.getMaster() != Master::None)
    text += ", master " + stringifyMaster(decision.getMaster()).str();
  text += ", states " + describeState(decision.getStates());
  if (FloatType accumulator = decision.getAccumulator())
    text += ", accumulator " + print(accumulator);
  return text;
}

std::string mlir::binade::describeCause(StorageAttr decision) {
  if (!decision)
    return "no rule";
  return decision.isPin() ? "pin of the module"
                          : decision.getRule().getValue().str();
}

DenseMap<Value, KeptValue>
mlir::binade::getKeptValues(const Explanation &explanation) {
  DenseMap<Value, KeptValue> values;
  for (const StorageNode &node : explanation.getGraph().getStorages()) {
    OptimizerUpdateOp op = node.op;
    values[op.getParameter()] = {node.decision};
    for (const KeptState &state : op.getKeptStates())
      for (Value part : op.getStates().slice(state.first, state.count))
        values[part] = {node.decision, state.index};
  }
  return values;
}

std::string mlir::binade::describeFormat(const Explanation &explanation,
                                         Value value, const KeptValue &kept) {
  bool isDecided = kept.decision && kept.state;
  Attribute state = isDecided ? kept.decision.getState(*kept.state) : nullptr;
  return state ? describeState(state)
               : llvm::to_string(explanation.getFormat(value));
}
