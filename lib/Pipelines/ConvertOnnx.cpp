//===- ConvertOnnx.cpp - Conversion of ONNX files by a policy -------------===//
// Imports a file, assigns formats to the ops, and transfers the decisions to
// the nodes that the ops come from. The file keeps its nodes.
//===----------------------------------------------------------------------===//

#include "binade/Pipelines/ConvertOnnx.h"
#include "binade/Autodiff/SaveValues.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/Names.h"
#include "binade/Precision/Assigner.h"
#include "binade/Precision/StepEvidence.h"
#include "binade/Raising/Passes.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Maps the names of nodes to the ops that they were imported as.
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
  /// An op that several nodes became has all of their locations.
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

/// Adds the decision of the matmuls and convolutions among `ops`, if they
/// agree.
static void addMatmuls(ArrayRef<PrecisionOpInterface> ops,
                       NodeFormats &formats) {
  for (PrecisionOpInterface op : ops) {
    if (!op.accumulates())
      continue;
    PrecisionAttr decision = op.getPrecisionAttr();
    bool isFirst = !formats.matmulCompute;
    if (!isFirst && (formats.matmulCompute != decision.getCompute() ||
                     formats.matmulResult != decision.getResult())) {
      formats.matmulCompute = formats.matmulResult = {};
      return;
    }
    formats.matmulCompute = decision.getCompute();
    formats.matmulResult = decision.getResult();
    if (auto rule = decision.getRule(); rule && isFirst)
      formats.matmulRule = rule.str();
  }
}

/// Merges the decisions of the ops of a node. Ops that only move values count
/// only if no other op has a decision. If decisions differ, the node computes
/// in f32.
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
  addMatmuls(computing, formats);
  for (PrecisionOpInterface op : computing) {
    PrecisionAttr decision = op.getPrecisionAttr();
    NodeFormats next;
    next.compute = decision.getCompute();
    next.accumulate = decision.getAccumulate();
    next.result = decision.getResult();
    if (auto rule = decision.getRule())
      next.rule = rule.str();
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      next.operands.push_back(decision.getOperand(i));
    next.accumulation = decision.getAccumulation();
    if (!formats.compute) {
      next.matmulCompute = formats.matmulCompute;
      next.matmulResult = formats.matmulResult;
      next.matmulRule = formats.matmulRule;
      formats = next;
      continue;
    }
    if (next.compute != formats.compute || next.result != formats.result) {
      // A node has one format, so use the one that is right for all ops.
      formats.compute = formats.result = Float32Type::get(op->getContext());
      formats.operands.clear();
    }
    if (next.accumulate)
      formats.accumulate = next.accumulate;
  }
  return formats;
}

/// Marks the backward ops of a gradient graph, which policies' rules may match.
static void setPhases(const NodeOps &ops, const PartialImport &partial,
                      const llvm::BitVector &backward) {
  for (unsigned index : backward.set_bits())
    for (Operation *op : ops.get(partial.nodes[index].name))
      setPhase(op, Phase::Backward);
}

/// Returns the backward nodes among all nodes. A node in a subgraph counts as
/// backward if the outer node does.
static llvm::BitVector findBackward(const PartialImport &partial,
                                    StringRef lossOutput) {
  llvm::BitVector outer = findBackwardNodes(*partial.model, lossOutput);
  llvm::BitVector backward(partial.nodes.size());
  int last = -1;
  for (auto [index, node] : llvm::enumerate(partial.nodes)) {
    last += node.depth == 0;
    backward[index] = outer.test(last);
  }
  return backward;
}

/// Returns the format of a saved value, if it is quantized or narrower than the
/// value.
static SavedFormat getSavedFormat(SaveOp save) {
  PrecisionAttr decision = save.getPrecisionAttr();
  if (!decision)
    return {};
  SavedFormat saved;
  saved.shape.assign(cast<RankedTensorType>(save.getX().getType()).getShape());
  saved.codes = decision.getOperand(0);
  auto maker = save.getX().getDefiningOp<PrecisionOpInterface>();
  PrecisionAttr made = maker ? maker.getPrecisionAttr() : PrecisionAttr();
  if (!saved.codes && made &&
      decision.getResult().getWidth() < made.getResult().getWidth())
    saved.format = decision.getResult();
  return saved;
}

/// Sets the saved formats of nodes. A saved value belongs to a node if one of
/// its ops produces the value and none of its other ops reads it.
static void addSavedFormats(ArrayRef<SaveOp> saves, const NodeOps &ops,
                            const PartialImport &partial,
                            std::vector<NodeFormats> &formats) {
  // If several nodes became one op, the last one has its result.
  llvm::DenseMap<Operation *, unsigned> makers;
  for (auto [index, node] : llvm::enumerate(partial.nodes))
    for (Operation *op : ops.get(node.name))
      makers[op] = index;
  for (SaveOp save : saves) {
    auto value = cast<OpResult>(save.getX());
    auto maker = makers.find(value.getOwner());
    SavedFormat saved = getSavedFormat(save);
    if (maker == makers.end() || !saved ||
        partial.nodes[maker->second].depth > 0)
      continue;
    saved.isFirst = value.getResultNumber() == 0;
    bool isInside = llvm::any_of(value.getUsers(), [&](Operation *user) {
      auto reader = makers.find(user);
      return reader != makers.end() && reader->second == maker->second;
    });
    if (!isInside)
      formats[maker->second].saved = std::move(saved);
  }
}

/// Returns the value of which `value` is a reshape or transpose.
static Value getOrigin(Value value) {
  while (Value before = getMoved(value))
    value = before;
  return value;
}

/// Returns the sorted lengths of the axes.
static SmallVector<int64_t> getSizes(Value value) {
  SmallVector<int64_t> sizes(
      cast<RankedTensorType>(value.getType()).getShape());
  llvm::sort(sizes);
  return sizes;
}

/// Returns gradients of parameters as results, since policies have rules about
/// them. A backward matmul or convolution is the gradient of a parameter if it
/// reads a value that a forward one multiplies with the parameter, and if its
/// result has the parameter's lengths. Names of outputs and optimizers in the
/// graph are not reliable.
static void addWeightGradients(func::FuncOp function) {
  DenseMap<Value, SmallVector<Port>> multiplied;
  SmallVector<NewResult> gradients;
  auto forProducts = [&](Phase phase, auto visit) {
    for (Operation &op : function.front())
      if (auto product = dyn_cast<PrecisionOpInterface>(op);
          product && product.accumulates() && getPhase(&op) == phase)
        visit(&op);
  };
  forProducts(Phase::Forward, [&](Operation *op) {
    for (Value operand : op->getOperands()) {
      auto argument = dyn_cast<BlockArgument>(getOrigin(operand));
      auto port = argument ? getArgument(function, argument.getArgNumber())
                           : std::optional<Port>();
      if (port && port->role == Role::Parameter)
        for (Value other : op->getOperands())
          multiplied[getOrigin(other)].push_back(*port);
    }
  });
  forProducts(Phase::Backward, [&](Operation *op) {
    Value product = op->getResult(0);
    for (Value operand : op->getOperands())
      for (const Port &port : multiplied.lookup(getOrigin(operand)))
        if (getSizes(function.getArgument(port.index)) == getSizes(product))
          gradients.push_back({Role::Gradient, port.name.str(), product});
  });
  addResults(function, gradients);
}

/// Whether the graph updates optimizer states: arguments that only the backward
/// pass reads, with a result of the same type.
static bool hasStates(func::FuncOp function) {
  return llvm::any_of(function.getArguments(), [&](BlockArgument argument) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    return type && type.getRank() > 0 && !argument.use_empty() &&
           llvm::is_contained(function.getResultTypes(), type) &&
           llvm::all_of(argument.getUsers(), [](Operation *user) {
             return getPhase(user) == Phase::Backward;
           });
  });
}

/// Reports that states are not quantized: they are inputs and outputs, whose
/// types the user sets.
static void listStates(func::FuncOp function, const Policy &policy,
                       std::vector<std::string> &limits) {
  bool isSpecified = llvm::any_of(policy.rules, [](const PolicyRule &rule) {
    return bool(rule.settings.state);
  });
  if (isSpecified && hasStates(function))
    limits.push_back("states of the optimizer are not quantized: they are "
                     "inputs and outputs, whose types --io-types sets");
}

/// Adds one line for each node and reason, however many ops the node became.
static void listHeld(ArrayRef<UnsuitableOp> held,
                     OnnxConversionReport &report) {
  llvm::StringSet<> known;
  for (const UnsuitableOp &op : held) {
    std::string line =
        ("node " + ::binade::quote(getNodeName(op.op)) + ": " + op.reason)
            .str();
    if (known.insert(line).second)
      (op.isNarrow ? report.written.limits : report.held).push_back(line);
  }
}

static LogicalResult decide(ModuleOp module, const OnnxConversion &conversion,
                            Policy &policy, OnnxConversionReport &report,
                            std::vector<NodeFormats> &formats) {
  for (const PolicyRule &rule : policy.rules)
    if (rule.settings.unitScale)
      return emitError(rule.location)
             << "unit_scale applies to training steps that Binade compiles; "
                "'binade convert' writes no scales of operands";
  const PartialImport &partial = report.partial;
  auto function = module.lookupSymbol<func::FuncOp>(kForwardName);
  function.setName(kStepName);
  NodeOps ops(function);
  llvm::BitVector backward =
      findBackward(partial, conversion.import.lossOutput);
  setPhases(ops, partial, backward);
  listStates(function, policy, report.written.limits);
  addWeightGradients(function);
  SmallVector<SaveOp> saves = saveForwardValues(function);
  if (failed(addEvidence(policy, conversion.ranges, module.getContext())))
    return failure();
  // Use the largest scale with which no recorded gradient overflows.
  if (policy.lossScaling && policy.evidence)
    policy.lossScaling->init = StepEvidence(function, policy).getLossScale();
  std::vector<UnsuitableOp> held;
  if (failed(assignPrecision(module, policy, &held)))
    return failure();
  listHeld(held, report);
  for (auto [node, decision] : llvm::zip(partial.nodes, formats)) {
    decision = mergeDecisions(ops.get(node.name));
    decision.isWide = node.isWide;
    decision.ranks = node.ranks;
    decision.same = node.same;
    decision.isMovement = node.isMovement;
    decision.movesAll = node.movesAll;
  }
  // Gradients in subgraphs are not scaled.
  for (unsigned index : backward.set_bits())
    if (partial.nodes[index].depth > 0)
      formats[index] = {};
    else
      formats[index].isBackward = true;
  addSavedFormats(saves, ops, partial, formats);
  return success();
}

/// The largest scale if the gradients are unknown: gradients up to 64 then stay
/// finite in f16.
static constexpr double kMaxUnknownScale = 1024.0;

/// Chooses the loss scale and its reason. The first scale of a policy is for
/// training, which lowers it after an overflow; a scale that never changes has
/// to leave room for larger gradients.
static void chooseScale(const Policy &policy, const OnnxConversion &conversion,
                        const LossScaling &settings, GradientScale &scale) {
  scale.init = settings.init;
  if (conversion.scale) {
    scale.init = *conversion.scale;
    scale.reason = "--loss-scale";
  } else if (settings.fixed) {
    scale.init = *settings.fixed;
    scale.reason = "the static scale of policy '" + policy.name + "'";
  } else if (policy.evidence) {
    scale.reason =
        "no gradient in " + policy.evidence->name + " overflows with it";
  } else if (scale.init > kMaxUnknownScale) {
    scale.init = kMaxUnknownScale;
    scale.reason = "gradients up to 64 stay finite in f16; --ranges or "
                   "--loss-scale chooses another";
  } else {
    scale.reason = "the first scale of policy '" + policy.name + "'";
  }
}

static std::optional<GradientScale> getScale(const Policy &policy,
                                             const OnnxConversion &conversion) {
  if (!policy.lossScaling && !conversion.scale && !conversion.hasDynamicScale)
    return std::nullopt;
  LossScaling settings = policy.lossScaling.value_or(LossScaling());
  GradientScale scale;
  chooseScale(policy, conversion, settings, scale);
  scale.growth = settings.growth;
  scale.backoff = settings.backoff;
  scale.interval = settings.interval;
  scale.isDynamic = conversion.hasDynamicScale;
  scale.isStateOfSteps = !conversion.scale && !settings.fixed;
  if (scale.init == 1.0 && !scale.isDynamic)
    return std::nullopt;
  return scale;
}

/// Whether the decision has a format of fewer than 32 bits.
static bool isNarrow(const NodeFormats &formats) {
  FloatType compute = formats.compute, result = formats.result;
  return (compute && compute.getWidth() < 32) ||
         (result && result.getWidth() < 32) || formats.saved;
}

LogicalResult mlir::binade::convertOnnx(StringRef path,
                                        const OnnxConversion &conversion,
                                        StringRef output, MLIRContext *context,
                                        OnnxConversionReport &report) {
  FailureOr<Policy> policy = loadPolicy(conversion.policy, context);
  if (failed(policy))
    return failure();
  auto module =
      importOnnxPart(path, conversion.import, context, report.partial);
  if (failed(module)) {
    report.written.exitCode = report.partial.exitCode;
    return failure();
  }
  if (*module)
    recognizeLinear((*module)->lookupSymbol<func::FuncOp>(kForwardName));
  policy->directory = llvm::sys::path::parent_path(path);
  if (policy->directory.empty())
    policy->directory = ".";
  std::vector<NodeFormats> formats(report.partial.nodes.size());
  if (*module && failed(decide(**module, conversion, *policy, report, formats)))
    return failure();
  ConvertedModel converted{path.str(), report.partial.model,
                           report.partial.inferred, std::move(formats)};
  if (report.partial.hasInlined && llvm::none_of(converted.formats, isNarrow)) {
    // If no format changes, keep the model's functions.
    auto original = readOnnx(path, context);
    if (failed(original))
      return failure();
    converted = {path.str(), *original, nullptr, {}};
  }
  ConvertOptions options;
  options.ports = conversion.ports;
  options.scale = getScale(*policy, conversion);
  options.lossOutput = conversion.import.lossOutput;
  options.policy = policy->name;
  options.allowHardLinks = conversion.import.allowHardLinks;
  return convertOnnx(converted, options, output, context, report.written);
}
