//===- Assigner.cpp - Decisions from chosen formats -----------------------===//

#include "binade/Precision/Assigner.h"
#include "binade/IR/Accumulation.h"
#include "binade/IR/Formats.h"
#include "binade/IR/Interface.h"
#include "binade/IR/QuantizedOperands.h"
#include "binade/IR/ScaledOperand.h"
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
      format = formats.get(findOperandKind(operand));
    } else if (bias && isBias(op, index)) {
      format = TypeAttr::get(bias);
      isUsual = false;
    }
    list.push_back(format ? format : UnitAttr::get(op->getContext()));
  }
  return isUsual ? ArrayAttr() : ArrayAttr::get(op->getContext(), list);
}

/// Returns the operands of `op`, a product whose operands a rule scales, and
/// the format of its bias, null for f32.
static ArrayAttr chooseScales(PrecisionOpInterface op,
                              const UnitScaling &formats,
                              const ExpectedScales &scales, FloatType bias) {
  SmallVector<Attribute> list;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    if (op.getOperandFormat(index) == FormatRole::Chosen)
      list.push_back(buildScaledOperand(op.getContext(),
                                        {formats.get(findOperandKind(operand)),
                                         scales.getExponent(operand.get()),
                                         scales.getRule(operand.get())}));
    else if (bias && isBias(op, index))
      list.push_back(TypeAttr::get(bias));
    else
      list.push_back(UnitAttr::get(op.getContext()));
  }
  return ArrayAttr::get(op.getContext(), list);
}

/// Whether both operands that a contraction multiplies are quantized.
static bool quantizesBothFactors(ArrayAttr operands) {
  constexpr int64_t kFactors = 2;
  return operands &&
         llvm::count_if(operands, llvm::IsaPred<QuantizedAttr>) == kFactors;
}

/// Returns `asked` if both factors of `op` are quantized and can be divided
/// into its groups.
static TransformAttr chooseTransform(PrecisionOpInterface op,
                                     TransformAttr asked, ArrayAttr operands) {
  return asked && quantizesBothFactors(operands) &&
                 explainUntransformable(op, asked.getHadamard()).empty()
             ? asked
             : TransformAttr();
}

/// Returns the accumulator that a rule requests, if the products of `node` can
/// be added so.
static AccumulationAttr chooseAccumulation(const PrecisionNode &node,
                                           ArrayAttr operands) {
  AccumulationAttr asked = node.rule
                               ? node.rule->settings.accumulation.accumulation
                               : AccumulationAttr();
  return asked && quantizesBothFactors(operands) &&
                 explainUnaccumulated(node.op, operands).empty()
             ? asked
             : AccumulationAttr();
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
    auto asked = node.rule && choice.quantizes
                     ? node.rule->settings.quantize.get(node.product)
                     : OperandFormats();
    formats.operands =
        chooseOperands(op, asked, roundsBias ? formats.result : FloatType());
    formats.transform =
        chooseTransform(op, asked.transform.transform, formats.operands);
    formats.accumulation = chooseAccumulation(node, formats.operands);
    if (asked.needsTransform() && !formats.transform)
      formats.operands = chooseOperands(
          op, OperandFormats(), roundsBias ? formats.result : FloatType());
  }
  if (node.rule && node.rule->settings.unitScale && hasScalableOperands(op)) {
    bool roundsBias =
        graph.getPolicy().narrowsBiases() && isNarrow(formats.result);
    formats.operands =
        chooseScales(op, node.rule->settings.unitScale, *graph.getScales(),
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

QuantizedAttr mlir::binade::getQuantizedFormat(const PrecisionNode &node,
                                               OpOperand &operand) {
  PrecisionOpInterface op = node.op;
  if (node.isPinned || !node.rule || !op.accumulates() ||
      op.getOperandFormat(operand.getOperandNumber()) != FormatRole::Chosen)
    return {};
  const OperandFormats &formats =
      node.rule->settings.quantize.get(node.product);
  return formats ? formats.get(findOperandKind(operand)) : QuantizedAttr();
}

bool mlir::binade::lacksQuantizedOperands(const PrecisionNode &node,
                                          PrecisionAttr decision) {
  ArrayAttr operands = decision.getOperands();
  if (operands && llvm::any_of(operands, llvm::IsaPred<QuantizedAttr>))
    return false;
  PrecisionOpInterface op = node.op;
  return llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
    return bool(getQuantizedFormat(node, operand));
  });
}

std::string mlir::binade::explainMissingTransform(const PrecisionNode &node,
                                                  PrecisionAttr decision) {
  if (node.isPinned || !node.rule || decision.getTransform())
    return {};
  const OperandFormats &formats =
      node.rule->settings.quantize.get(node.product);
  if (lacksQuantizedOperands(node, decision) &&
      !(formats.needsTransform() && isNarrow(decision.getCompute())))
    return {};
  TransformAttr asked = formats.transform.transform;
  PrecisionOpInterface op = node.op;
  if (!asked || !op.accumulates())
    return {};
  std::string reason = explainUntransformable(op, asked.getHadamard());
  if (reason.empty())
    return "has a factor that is not quantized";
  if (formats.needsTransform())
    reason += "; without the transform rule 'rounded_eden' is biased, so that "
              "they are not quantized";
  return reason;
}

Formats mlir::binade::getFormats(PrecisionAttr decision) {
  return {decision.getCompute(),   decision.getAccumulate(),
          decision.getResult(),    decision.getOperands(),
          decision.getTransform(), decision.getAccumulation(),
          decision.getClamp()};
}

std::string mlir::binade::explainMissingAccumulation(const PrecisionNode &node,
                                                     PrecisionAttr decision) {
  if (node.isPinned || !node.rule || !node.rule->settings.accumulation ||
      decision.getAccumulation() ||
      !quantizesBothFactors(decision.getOperands()))
    return {};
  return explainUnaccumulated(node.op, decision.getOperands());
}

PrecisionAttr DecisionBuilder::build(unsigned index, const Choice &choice) {
  const PrecisionNode &node = graph.getNodes()[index];
  PrecisionOpInterface op = node.op;
  if (node.isPinned)
    return op.getPrecisionAttr();
  const PolicyRule *rule = node.savedRule ? node.savedRule : node.rule;
  Formats formats = getFormats(graph, index, choice);
  PrecisionAttr &decision = known[{
      node.fitsNowhere ? node.getEvidence().data()
                       : static_cast<const void *>(rule),
      static_cast<unsigned>(node.precisionClass), formats.compute,
      formats.accumulate, formats.result, formats.operands, formats.transform}];
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
             formats.result, formats.operands, formats.transform,
             formats.accumulation, formats.clamp,
             StringAttr::get(op.getContext(), origin));
}
