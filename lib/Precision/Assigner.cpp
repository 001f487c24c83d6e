//===- Assigner.cpp - How formats are chosen ------------------------------===//

#include "binade/Precision/Assigner.h"

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

Formats mlir::binade::getFormats(const PrecisionGraph &graph, unsigned index,
                                 const Choice &choice) {
  const PrecisionNode &node = graph.getNodes()[index];
  PrecisionOpInterface op = node.op;
  if (node.isPinned)
    return getFormats(op.getPrecisionAttr());
  Formats formats;
  formats.compute = node.compute ? node.compute : choice.format;
  formats.result = node.result ? node.result : formats.compute;
  // Sums are narrower than f32 where a rule asks for that.
  if (op.accumulates())
    formats.accumulate =
        node.accumulate
            ? node.accumulate
            : getWider(Float32Type::get(op.getContext()), formats.compute);
  // What is saved was clamped where it was made.
  bool makes = !node.fitsNowhere && !isa<SaveOp>(*op);
  if (makes && node.rule && node.rule->settings.clamp)
    formats.clamp = ClampAttr::get(op.getContext(), *node.rule->settings.clamp);
  return formats;
}

Formats mlir::binade::getFormats(PrecisionAttr decision) {
  return {decision.getCompute(), decision.getAccumulate(), decision.getResult(),
          decision.getClamp()};
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
             formats.accumulate, formats.result}];
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
             formats.result, formats.clamp,
             StringAttr::get(op.getContext(), origin));
}
