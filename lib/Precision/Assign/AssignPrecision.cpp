//===- AssignPrecision.cpp - The pass that assigns formats to ops ---------===//

#include "../Materialize/StoreParameters.h"
#include "binade/IR/DelayedScales.h"
#include "binade/IR/ExchangeFormat.h"
#include "binade/IR/Interface.h"
#include "binade/IR/MissingFunction.h"
#include "binade/IR/Names.h"
#include "binade/IR/Watch.h"
#include "binade/Precision/Explain.h"
#include "binade/Precision/MatchRules.h"
#include "binade/Precision/Passes.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/ScopedPrinter.h"

namespace mlir::binade {
#define GEN_PASS_DEF_ASSIGNPRECISIONPASS
#include "binade/Precision/Passes.h.inc"

static constexpr auto kRemark =
    remark::RemarkOpts::name("AssignPrecision").category("precision");

static void describe(const Explanation &explanation, unsigned node,
                     remark::detail::InFlightRemark &remark) {
  PrecisionOpInterface op = explanation.getGraph().getNodes()[node].op;
  PrecisionAttr decision = explanation.getDecision(node);
  remark << remark::metric("op", op->getName().getStringRef())
         << remark::metric("compute", llvm::to_string(decision.getCompute()))
         << remark::metric("result", llvm::to_string(decision.getResult()))
         << remark::metric("rule", decision.isPin()
                                       ? "pin"
                                       : decision.getRule().getValue());
  if (std::string reason = explanation.getReason(node); !reason.empty())
    remark << remark::reason("{0}", reason);
  int64_t bytes = 0;
  std::vector<const CastReport *> casts = explanation.getCasts(op);
  for (const CastReport *cast : casts)
    bytes += cast->getBytes();
  remark << remark::metric("casts", casts.size())
         << remark::metric("cast_bytes", bytes);
}

/// Emits a remark with the contents of `binade explain` for each op. Builds the
/// explanation only if remarks are enabled.
static LogicalResult report(func::FuncOp step, const PrecisionGraph &graph) {
  std::optional<Explanation> explanation;
  for (auto [index, node] : llvm::enumerate(graph.getNodes())) {
    auto remark = remark::passed(node.op->getLoc(), kRemark);
    if (!remark)
      return success();
    if (!explanation) {
      FailureOr<Explanation> created =
          Explanation::create(step, graph.getPolicy());
      if (failed(created))
        return failure();
      explanation.emplace(std::move(*created));
    }
    describe(*explanation, index, remark);
  }
  return success();
}

/// Reports rules that ask for quantized operands without effect: a remark for
/// each contraction that computes in a wide format, and a warning for a rule,
/// or a policy, that quantizes no contraction.
static void reportUnquantized(func::FuncOp step, const PrecisionGraph &graph) {
  struct Products {
    unsigned all = 0, quantized = 0;
  };
  const Policy &policy = graph.getPolicy();
  llvm::MapVector<const PolicyRule *, Products> products;
  for (const PrecisionNode &node : graph.getNodes()) {
    if (!node.rule || !node.rule->settings.quantize || node.isPinned)
      continue;
    PrecisionOpInterface op = node.op;
    Products &found = products[node.rule];
    if (!op.accumulates())
      continue;
    ++found.all;
    PrecisionAttr decision = op.getPrecisionAttr();
    // `checkTransforms` reports missing transforms.
    if (!lacksQuantizedOperands(node, decision) ||
        !explainMissingTransform(node, decision).empty())
      ++found.quantized;
    else
      remark::missed(op->getLoc(), kRemark)
          << remark::metric("op", op->getName().getStringRef())
          << remark::metric("rule", node.rule->origin)
          << (decision.getCompute() == policy.wide || !policy.cut
                  ? remark::reason(
                        "operands are not quantized: the op computes in {0}",
                        llvm::to_string(decision.getCompute()))
                  : remark::reason("operands are not quantized: that is slower "
                                   "on the target of the cut"));
  }
  for (auto [rule, found] : products) {
    if (found.all == 0)
      emitWarning(
          rule->location,
          "quantizes nothing: it matches no matmul or other contraction");
    else if (found.quantized == 0 && !policy.cut)
      emitWarning(rule->location,
                  "quantizes nothing: all contractions that it decides (")
          << found.all << ") compute in the wide format; "
          << (policy.narrow == policy.wide
                  ? "quantized operands need a policy with a narrow format, "
                    "such as one that extends bf16-amp"
                  : "'class: allow' lets them compute in the narrow format");
  }
  bool isExpected = llvm::any_of(policy.rules, [](const PolicyRule &rule) {
    return static_cast<bool>(rule.settings.quantize);
  });
  if (isExpected && products.empty())
    emitWarning(step.getLoc(), "policy '")
        << policy.name
        << "' quantizes no matmul of this model: no rule with 'quantize' "
           "decides one; 'binade policy check' shows what rules match";
}

/// Reports products whose operands cannot be divided into the groups of a
/// transform: an error if the rule is in a user's file and not `optional`. For
/// any other rule, the operands are quantized without the transform, or not at
/// all if their formats need it, and one warning counts the products.
static LogicalResult checkTransforms(const PrecisionGraph &graph) {
  struct Missing {
    const PrecisionNode *first;
    std::string reason;
    unsigned count = 0;
  };
  LogicalResult result = success();
  llvm::MapVector<const OperandFormats *, Missing> missing;
  for (const PrecisionNode &node : graph.getNodes()) {
    PrecisionOpInterface op = node.op;
    std::string reason = explainMissingTransform(node, op.getPrecisionAttr());
    if (reason.empty())
      continue;
    const OperandFormats &formats =
        node.rule->settings.quantize.get(node.product);
    if (node.rule->isUser && !node.rule->isOptional)
      result = emitError(formats.transform.location)
               << "cannot transform the operands of " << describe(op) << ": it "
               << reason;
    else
      ++missing.try_emplace(&formats, Missing{&node, reason})
            .first->second.count;
  }
  for (auto &[formats, found] : missing)
    emitWarning(formats->transform.location)
        << (formats->needsTransform() ? "does not quantize " : "quantizes ")
        << found.count << (found.count == 1 ? " product" : " products")
        << " without the transform: "
        << describe(PrecisionOpInterface(found.first->op).getOperation()) << " "
        << found.reason;
  return result;
}

/// Reports matmuls that cannot have the accumulator that a rule requests: an
/// error if the rule is in a user's file and not `optional`. For any other
/// rule, sums are in f32, and one warning counts the matmuls.
static LogicalResult checkAccumulations(const PrecisionGraph &graph) {
  struct Missing {
    Operation *first;
    std::string reason;
    unsigned count = 0;
  };
  LogicalResult result = success();
  llvm::MapVector<const PolicyRule *, Missing> missing;
  for (const PrecisionNode &node : graph.getNodes()) {
    PrecisionOpInterface op = node.op;
    std::string reason =
        explainMissingAccumulation(node, op.getPrecisionAttr());
    if (reason.empty())
      continue;
    if (node.rule->isUser && !node.rule->isOptional)
      result = emitError(node.rule->settings.accumulation.location)
               << "cannot model the accumulator of "
               << describe(op.getOperation()) << ": it " << reason;
    else
      ++missing.try_emplace(node.rule, Missing{op, reason}).first->second.count;
  }
  for (auto &[rule, found] : missing)
    emitWarning(rule->settings.accumulation.location)
        << "adds the products of " << found.count
        << (found.count == 1 ? " matmul" : " matmuls")
        << " in f32: " << describe(found.first) << " " << found.reason;
  return result;
}

/// Emits a remark if a cut cannot count the time to quantize operands.
static void reportMissingRates(const PrecisionGraph &graph) {
  const std::optional<CutSettings> &cut = graph.getPolicy().cut;
  if (cut && graph.quantizesOperands() && cut->target.quantized.empty())
    emitRemark(cut->location)
        << "costs of '" << cut->target.target
        << "' have no rates of quantized formats ('quantized'), so that narrow "
           "contractions quantize their operands even where that is slower; "
           "'binade costs --measure' writes the rates of this machine";
}

/// Collects the ops with an operand or result that a narrow format cannot
/// represent: those that stay wide for this reason, and those that a user made
/// narrow nevertheless.
static void findUnsuitableOps(const PrecisionGraph &graph,
                              std::vector<UnsuitableOp> &held) {
  for (auto [index, node] : llvm::enumerate(graph.getNodes())) {
    PrecisionOpInterface op = node.op;
    ArrayRef<UnsuitableFormat> unsuitable = graph.getUnsuitable(index);
    if (unsuitable.empty())
      continue;
    PrecisionClass own = op.getPrecisionClass();
    if (node.rule)
      own = node.rule->settings.precisionClass.value_or(own);
    bool isWide =
        own == PrecisionClass::Deny || own == PrecisionClass::Unlisted;
    FloatType compute = op.getPrecisionAttr().getCompute();
    bool isNarrow = llvm::any_of(unsuitable, [&](const UnsuitableFormat &one) {
      return one.format == compute;
    });
    if (isNarrow || !isWide)
      held.push_back({op, unsuitable.front().reason, isNarrow});
  }
}

static LogicalResult decideOps(func::FuncOp step, PrecisionGraph &graph) {
  reportMissingRates(graph);
  std::vector<Choice> choices =
      createAssigner(graph.getPolicy())->assign(graph);
  DecisionBuilder builder(graph);
  for (auto [index, node] : llvm::enumerate(graph.getNodes())) {
    PrecisionAttr decision = builder.build(index, choices[index]);
    if (!decision)
      return failure();
    PrecisionOpInterface op = node.op;
    op.setPrecisionAttr(decision);
  }
  reportUnquantized(step, graph);
  LogicalResult accumulated = checkAccumulations(graph);
  return failed(checkTransforms(graph)) ? failure() : accumulated;
}

/// Emits an error if the glob of a `--states` matches no parameter.
static LogicalResult checkStates(func::FuncOp step,
                                 const PrecisionGraph &graph) {
  for (const StateOverride &said : graph.getPolicy().states)
    if (said.name.pattern &&
        llvm::none_of(graph.getStorages(), [&](const StorageNode &node) {
          return said.name.matches(getNodeName(node.op));
        }))
      return emitError(UnknownLoc::get(step.getContext()))
             << "states: no parameter matches '" << said.name.text << "'";
  return success();
}

LogicalResult assignPrecision(ModuleOp module, const Policy &policy,
                              std::vector<UnsuitableOp> *held) {
  auto step = module.lookupSymbol<func::FuncOp>(kStepName);
  if (!step)
    return emitMissingFunction(module, kStepName, "to assign formats to");
  module->setAttr(kPolicyAttr, policy.source);
  if (policy.amaxHalfLife)
    module->setAttr(
        kAmaxHalfLifeAttr,
        Builder(module.getContext()).getI64IntegerAttr(*policy.amaxHalfLife));
  if (policy.exchange)
    module->setAttr(kExchangeAttr,
                    StringAttr::get(module.getContext(),
                                    stringifyExchangeFormat(*policy.exchange)));
  if (!policy.statistics.empty())
    module->setAttr(
        kStatisticsAttr,
        Builder(module.getContext())
            .getStrArrayAttr(llvm::to_vector_of<StringRef>(policy.statistics)));
  setAlarmRequests(module, policy.alarms);
  if (policy.isIdentity())
    return success();
  PrecisionGraph graph(step, policy);
  if (policy.decidesOps() && failed(decideOps(step, graph)))
    return failure();
  if (held && policy.decidesOps())
    findUnsuitableOps(graph, *held);
  for (const StorageNode &node : graph.getStorages()) {
    OptimizerUpdateOp op = node.op;
    if (node.decision)
      op.setStorageAttr(node.decision);
    else
      op.removeStorageAttr();
  }
  warnOfLostUpdates(graph);
  return success(succeeded(checkRules(graph)) &&
                 succeeded(checkStates(step, graph)) &&
                 succeeded(report(step, graph)));
}

namespace {
struct AssignPrecisionPass
    : impl::AssignPrecisionPassBase<AssignPrecisionPass> {
  using Base::Base;

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    FailureOr<Policy> loaded = loadPolicy(policy, context);
    if (failed(loaded) || failed(addEvidence(*loaded, ranges, context)) ||
        failed(addStateFormats(*loaded, llvm::to_vector(states), context)) ||
        failed(assignPrecision(getOperation(), *loaded)))
      signalPassFailure();
  }
};
} // namespace
} // namespace mlir::binade
