//===- ConvertOnnx.cpp - An ONNX file with its precision assigned ---------===//
// The file's nodes stay. What is decided about the ops that they become is
// decided about them.
//===----------------------------------------------------------------------===//

#include "binade/Pipelines/ConvertOnnx.h"
#include "binade/IR/Interface.h"
#include "binade/Precision/Assigner.h"
#include "binade/Precision/StepEvidence.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// The ops that nodes have become, by the nodes' names.
class NodeOps {
public:
  explicit NodeOps(func::FuncOp function) {
    for (Operation &op : function.front())
      add(&op, op.getLoc());
  }

  ArrayRef<Operation *> get(StringRef name) const {
    auto found = ops.find(name);
    return found == ops.end() ? ArrayRef<Operation *>() : found->second;
  }

private:
  /// What several nodes have become has all of their locations.
  void add(Operation *op, Location loc) {
    if (auto name = dyn_cast<NameLoc>(loc))
      ops[name.getName()].push_back(op);
    else if (auto fused = dyn_cast<FusedLoc>(loc))
      for (Location part : fused.getLocations())
        add(op, part);
  }

  llvm::StringMap<SmallVector<Operation *, 1>> ops;
};
} // namespace

/// What ops that compute say, if they agree. What only moves values follows
/// them, unless there is nothing else.
static NodeFormats mergeDecisions(ArrayRef<Operation *> ops) {
  SmallVector<PrecisionOpInterface> decided, computing;
  for (Operation *op : ops)
    if (auto chosen = dyn_cast<PrecisionOpInterface>(op);
        chosen && chosen.getPrecisionAttr()) {
      decided.push_back(chosen);
      if (chosen.getPrecisionClass() != PrecisionClass::Clear)
        computing.push_back(chosen);
    }
  if (computing.empty())
    computing = decided;
  NodeFormats formats;
  for (PrecisionOpInterface op : computing) {
    PrecisionAttr decision = op.getPrecisionAttr();
    NodeFormats next{decision.getCompute(),
                     decision.getAccumulate(),
                     decision.getResult(),
                     {},
                     {},
                     ""};
    if (auto rule = decision.getRule())
      next.rule = rule.str();
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      next.operands.push_back(decision.getOperand(i));
    if (!formats.compute) {
      formats = next;
      continue;
    }
    if (next.compute != formats.compute || next.result != formats.result) {
      // A node has one format: the one that is right for all of its ops.
      formats.compute = formats.result = Float32Type::get(op->getContext());
      formats.operands.clear();
    }
    if (next.accumulate)
      formats.accumulate = next.accumulate;
  }
  return formats;
}

/// The backward part of a gradient graph has policies' rules about it.
static void setPhases(const NodeOps &ops, const LeftOut &leftOut,
                      const llvm::BitVector &backward) {
  for (unsigned index : backward.set_bits())
    for (Operation *op : ops.get(leftOut.nodes[index].name))
      setPhase(op, Phase::Backward);
}

static LogicalResult decide(ModuleOp module, StringRef path,
                            const OnnxConversion &conversion, Policy &policy,
                            const LeftOut &leftOut,
                            std::vector<NodeFormats> &formats) {
  auto function = module.lookupSymbol<func::FuncOp>(kForwardName);
  function.setName(kStepName);
  NodeOps ops(function);
  setPhases(ops, leftOut,
            findBackwardNodes(path, conversion.import.lossOutput,
                              module.getContext()));
  if (failed(addEvidence(policy, conversion.ranges, module.getContext())))
    return failure();
  // The scale with which no gradient overflows that a run has recorded.
  if (policy.lossScaling && policy.evidence)
    policy.lossScaling->init = StepEvidence(function, policy).getLossScale();
  if (failed(assignPrecision(module, policy)))
    return failure();
  for (auto [node, decision] : llvm::zip(leftOut.nodes, formats)) {
    decision = mergeDecisions(ops.get(node.name));
    decision.ranks = node.ranks;
  }
  return success();
}

static std::optional<GradientScale> getScale(const Policy &policy,
                                             const OnnxConversion &conversion) {
  if (!policy.lossScaling && !conversion.scale && !conversion.hasDynamicScale)
    return std::nullopt;
  LossScaling settings = policy.lossScaling.value_or(LossScaling());
  GradientScale scale;
  scale.init =
      conversion.scale.value_or(settings.fixed.value_or(settings.init));
  scale.growth = settings.growth;
  scale.backoff = settings.backoff;
  scale.interval = settings.interval;
  scale.isDynamic = conversion.hasDynamicScale;
  if (scale.init == 1.0 && !scale.isDynamic)
    return std::nullopt;
  return scale;
}

LogicalResult mlir::binade::convertOnnx(StringRef path,
                                        const OnnxConversion &conversion,
                                        StringRef output, MLIRContext *context,
                                        OnnxConversionReport &report) {
  FailureOr<Policy> policy = loadPolicy(conversion.policy, context);
  if (failed(policy))
    return failure();
  auto module =
      importOnnxPart(path, conversion.import, context, report.leftOut);
  if (failed(module))
    return failure();
  std::vector<NodeFormats> formats(report.leftOut.nodes.size());
  if (*module && failed(decide(**module, path, conversion, *policy,
                               report.leftOut, formats)))
    return failure();
  ConvertOptions options;
  options.ports = conversion.ports;
  options.scale = getScale(*policy, conversion);
  options.lossOutput = conversion.import.lossOutput;
  options.policy = policy->name;
  options.allowHardLinks = conversion.import.allowHardLinks;
  return convertOnnx(path, formats, options, output, context, report.written);
}
