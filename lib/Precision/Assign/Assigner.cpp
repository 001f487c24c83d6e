//===- Assigner.cpp - Decisions from chosen formats -----------------------===//

#include "binade/Precision/Assigner.h"
#include "binade/IR/Build.h"
#include "binade/IR/Formats.h"
#include "binade/IR/Interface.h"
#include "binade/Precision/Biases.h"

using namespace mlir;
using namespace mlir::binade;

std::unique_ptr<Assigner> mlir::binade::createAssigner(const Policy &policy) {
  if (policy.cut)
    return createCut();
  return policy.propagate == Propagation::Painting ? createPainting()
                                                   : createOperandRule();
}

static FloatType getWider(FloatType a, FloatType b) {
  return a.getFPMantissaWidth() < b.getFPMantissaWidth() ? b : a;
}

/// Whether `format` has fewer bits of precision than f32.
static bool isNarrow(FloatType format) {
  FloatType wide = Float32Type::get(format.getContext());
  return format.getFPMantissaWidth() < wide.getFPMantissaWidth();
}

/// Returns the value from which `value` was moved, cast or saved.
static Value getOrigin(Value value) {
  while (Operation *maker = value.getDefiningOp()) {
    Value before = isa<SaveOp>(maker) ? maker->getOperand(0) : getMoved(value);
    if (!before)
      break;
    value = before;
  }
  return value;
}

/// Whether `value` is an argument of the step other than the batch.
static bool isKept(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto step = argument
                  ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
                  : nullptr;
  std::optional<Port> port =
      step ? getArgument(step, argument.getArgNumber()) : std::nullopt;
  return argument && !(port && port->role == Role::Batch);
}

/// Returns the format to which `operand` is quantized. Values that backward ops
/// write are gradients, arguments other than the batch are weights, and all
/// others are activations.
static QuantizedAttr getQuantized(OpOperand &operand,
                                  const OperandFormats &formats) {
  Value origin = getOrigin(operand.get());
  Operation *maker = origin.getDefiningOp();
  bool isGradient = maker && getPhase(maker) == Phase::Backward;
  return isGradient       ? formats.gradient
         : isKept(origin) ? formats.weight
                          : formats.activation;
}

/// Returns the formats to which operands of a contraction are quantized, and
/// that of its bias, null for f32. Null if all operands are read as usual.
static ArrayAttr chooseOperands(PrecisionOpInterface op,
                                const OperandFormats &formats, FloatType bias) {
  bool isUsual = !formats;
  if (isUsual && !bias)
    return {};
  SmallVector<Attribute> list;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    Attribute format;
    if (op.getOperandFormat(index) == FormatRole::Chosen) {
      format = getQuantized(operand, formats);
    } else if (bias && isBias(op, index)) {
      format = TypeAttr::get(bias);
      isUsual = false;
    }
    list.push_back(format ? format : UnitAttr::get(op->getContext()));
  }
  return isUsual ? ArrayAttr() : ArrayAttr::get(op->getContext(), list);
}

Formats mlir::binade::getFormats(const PrecisionGraph &graph, unsigned index,
                                 const Choice &choice) {
  const PrecisionNode &node = graph.getNodes()[index];
  PrecisionOpInterface op = node.op;
  if (node.isPinned)
    return getFormats(op.getPrecisionAttr());
  Formats formats;
  formats.compute = node.compute ? node.compute : choice.format;
  formats.result = node.result ? node.result : formats.compute;
  // The order of a copy and of a rounding does not matter.
  if (hasOneFormat(op) && getStorageFormat(formats.compute) != formats.result)
    formats.compute = formats.result =
        isNarrow(formats.compute) ? formats.compute : formats.result;
  // Sums are in f32 or wider unless a rule sets another format.
  if (op.accumulates())
    formats.accumulate =
        node.accumulate
            ? node.accumulate
            : getWider(Float32Type::get(op.getContext()), formats.compute);
  // A contraction that computes in f32 does not quantize its operands.
  if (op.accumulates() && isNarrow(formats.compute)) {
    bool roundsBias =
        graph.getPolicy().narrowsBiases() && isNarrow(formats.result);
    formats.operands = chooseOperands(
        op, node.rule ? node.rule->settings.quantize : OperandFormats(),
        roundsBias ? formats.result : FloatType());
  }
  if (node.savedFormat)
    formats.operands = ArrayAttr::get(op.getContext(), {node.savedFormat});
  // A saved value was clamped by its producer.
  bool makes = !node.fitsNowhere && !isa<SaveOp>(*op);
  if (makes && node.rule && node.rule->settings.clamp)
    formats.clamp = ClampAttr::get(op.getContext(), *node.rule->settings.clamp);
  return formats;
}

bool mlir::binade::lacksQuantizedOperands(const PrecisionNode &node,
                                          PrecisionAttr decision) {
  PrecisionOpInterface op = node.op;
  return !node.isPinned && node.rule && node.rule->settings.quantize &&
         op.accumulates() && !isNarrow(decision.getCompute());
}

Formats mlir::binade::getFormats(PrecisionAttr decision) {
  return {decision.getCompute(), decision.getAccumulate(), decision.getResult(),
          decision.getOperands(), decision.getClamp()};
}

PrecisionAttr DecisionBuilder::build(unsigned index, const Choice &choice) {
  const PrecisionNode &node = graph.getNodes()[index];
  PrecisionOpInterface op = node.op;
  if (node.isPinned)
    return op.getPrecisionAttr();
  const PolicyRule *rule = node.savedRule ? node.savedRule : node.rule;
  Formats formats = getFormats(graph, index, choice);
  PrecisionAttr &decision =
      known[{node.fitsNowhere ? node.getEvidence().data()
                              : static_cast<const void *>(rule),
             static_cast<unsigned>(node.precisionClass), formats.compute,
             formats.accumulate, formats.result, formats.operands}];
  if (decision)
    return decision;
  std::string origin = node.fitsNowhere ? node.getEvidence().str()
                       : rule           ? rule->origin
                                        : getOrigin(node.precisionClass);
  return decision = PrecisionAttr::getChecked(
             [&] {
               return emitError(node.rule ? Location(node.rule->location)
                                          : op.getLoc());
             },
             op.getContext(), formats.compute, formats.accumulate,
             formats.result, formats.operands, formats.clamp,
             StringAttr::get(op.getContext(), origin));
}
