//===- AssignPrecision.cpp - Decide the formats of every op ---------------===//

#include "binade/Container/Suggest.h"
#include "binade/IR/Interface.h"
#include "binade/Precision/Assigner.h"
#include "binade/Precision/Passes.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/ScopedPrinter.h"

namespace mlir::binade {
#define GEN_PASS_DEF_ASSIGNPRECISIONPASS
#include "binade/Precision/Passes.h.inc"

static constexpr auto kRemark =
    remark::RemarkOpts::name("AssignPrecision").category("precision");

/// Tells whoever listens; nobody pays who does not.
static void report(PrecisionOpInterface op, PrecisionAttr decision) {
  if (!op.getContext()->getRemarkEngine())
    return;
  auto remark = remark::passed(op.getLoc(), kRemark);
  remark << remark::metric("op", op->getName().getStringRef())
         << remark::metric("compute", llvm::to_string(decision.getCompute()))
         << remark::metric("result", llvm::to_string(decision.getResult()))
         << remark::metric("rule", decision.isPin()
                                       ? "pin"
                                       : decision.getRule().getValue());
}

namespace {
struct AssignPrecisionPass
    : impl::AssignPrecisionPassBase<AssignPrecisionPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Policy> loaded = loadPolicy(policy, &getContext());
    if (failed(loaded))
      return signalPassFailure();
    auto step = module.lookupSymbol<func::FuncOp>("step");
    if (!step) {
      module.emitError("expected a function '@step' to assign formats to");
      return signalPassFailure();
    }
    module->setAttr(kPolicyAttr, loaded->source);
    if (loaded->isIdentity())
      return;
    PrecisionGraph graph(step, *loaded);
    std::vector<Choice> choices = createAssigner(*loaded)->assign(graph);
    for (auto [index, node] : llvm::enumerate(graph.getNodes())) {
      PrecisionAttr decision = buildDecision(graph, index, choices[index]);
      if (!decision)
        return signalPassFailure();
      PrecisionOpInterface op = node.op;
      op.setPrecisionAttr(decision);
      report(op, decision);
    }
    if (failed(checkRules(graph, step)))
      signalPassFailure();
  }

  /// A rule of a user's file that matches nothing has a typing error; shipped
  /// policies name ops that a model may lack.
  static LogicalResult checkRules(const PrecisionGraph &graph,
                                  func::FuncOp step) {
    const Policy &policy = graph.getPolicy();
    RuleMatcher matcher(policy.rules, step);
    for (const PolicyRule &rule : policy.rules) {
      if (!rule.isUser || rule.isOptional)
        continue;
      if (llvm::none_of(graph.getNodes(), [&](const PrecisionNode &node) {
            return matcher.matches(rule, node.op);
          }))
        return emitError(rule.location)
               << "rule matches no op of this model; 'optional: true' allows "
                  "that"
               << suggestName(rule.match, graph);
    }
    return success();
  }

  /// The name of the model's that looks most like what a selector asks for.
  static std::string suggestName(const PolicySelector &match,
                                 const PrecisionGraph &graph) {
    llvm::SetVector<StringRef> names;
    for (const PrecisionNode &node : graph.getNodes())
      names.insert(getNodeName(node.op));
    return ::binade::suggest(
        match.name.text, std::vector<std::string>(names.begin(), names.end()));
  }
};
} // namespace
} // namespace mlir::binade
