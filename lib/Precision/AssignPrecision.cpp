//===- AssignPrecision.cpp - Decide the formats of every op ---------------===//
// One forward walk: producers of an `infer` op are decided before the op.
//===----------------------------------------------------------------------===//

#include "binade/Container/Suggest.h"
#include "binade/IR/Interface.h"
#include "binade/Precision/Passes.h"
#include "binade/Precision/Policy.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/ScopedPrinter.h"

namespace mlir::binade {
#define GEN_PASS_DEF_ASSIGNPRECISIONPASS
#include "binade/Precision/Passes.h.inc"

static constexpr auto kRemark =
    remark::RemarkOpts::name("AssignPrecision").category("precision");

namespace {
class Assigner {
public:
  Assigner(const Policy &policy, const OpRoles &roles)
      : policy(policy), roles(roles) {}

  LogicalResult assign(PrecisionOpInterface op) {
    if (!hasChosenFormat(op))
      return success();
    PrecisionAttr decision = op.getPrecisionAttr();
    if (!decision || !decision.isPin())
      op.setPrecisionAttr(decision = decide(op));
    if (!decision)
      return failure();
    auto remark = remark::passed(op.getLoc(), kRemark);
    remark << remark::metric("op", op->getName().getStringRef())
           << remark::metric("compute", llvm::to_string(decision.getCompute()))
           << remark::metric("result", llvm::to_string(decision.getResult()))
           << remark::metric("rule", decision.isPin()
                                         ? "pin"
                                         : decision.getRule().getValue());
    return success();
  }

private:
  PrecisionAttr decide(PrecisionOpInterface op) {
    const PolicyRule *rule = policy.findRule(op, roles);
    PolicySettings settings = rule ? rule->settings : PolicySettings();
    if (auto save = dyn_cast<SaveOp>(*op); save && !settings.result) {
      // How a value waits is said where it is made.
      Operation *producer = save.getX().getDefiningOp();
      const PolicyRule *made =
          producer ? policy.findRule(producer, roles) : nullptr;
      if (made && made->settings.saved) {
        rule = made;
        settings.result = made->settings.saved;
      }
    }
    PrecisionClass kind =
        settings.precisionClass.value_or(op.getPrecisionClass());
    FloatType format = isNarrow(op, kind) ? policy.narrow : policy.wide;
    FloatType compute = settings.compute ? settings.compute : format;
    FloatType result = settings.result ? settings.result : compute;
    FloatType accumulate;
    if (op.accumulates())
      accumulate = settings.accumulate ? settings.accumulate
                                       : getWider(policy.wide, compute);
    std::string origin =
        rule ? rule->origin : ("class " + stringifyPrecisionClass(kind)).str();
    return PrecisionAttr::getChecked(
        [&] {
          return emitError(rule ? Location(rule->location) : op.getLoc());
        },
        op.getContext(), compute, accumulate, result,
        StringAttr::get(op.getContext(), origin));
  }

  static FloatType getWider(FloatType a, FloatType b) {
    return a.getFPMantissaWidth() < b.getFPMantissaWidth() ? b : a;
  }

  bool isNarrow(PrecisionOpInterface op, PrecisionClass kind) const {
    if (kind == PrecisionClass::Allow || kind == PrecisionClass::Deny)
      return kind == PrecisionClass::Allow;
    bool asked = false;
    for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
      if (op.getOperandFormat(index) != FormatRole::Chosen ||
          matchPattern(operand, m_Constant()))
        continue;
      if (getFormat(operand) != policy.narrow)
        return false;
      asked = true;
    }
    return asked;
  }

  /// The format that `value` will have. In which format it waited does not say
  /// how it is computed with.
  Type getFormat(Value value) const {
    auto op = value.getDefiningOp<PrecisionOpInterface>();
    if (op && op.getPrecisionAttr()) {
      if (isa<SaveOp>(*op))
        return op.getPrecisionAttr().getCompute();
      unsigned index = cast<OpResult>(value).getResultNumber();
      if (op.getResultFormat(index) == FormatRole::Chosen)
        return op.getPrecisionAttr().getResult();
    }
    return getElementTypeOrSelf(value.getType());
  }

  const Policy &policy;
  const OpRoles &roles;
};

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
    OpRoles roles(step);
    Assigner assigner(*loaded, roles);
    WalkResult walked = step.walk([&](PrecisionOpInterface op) {
      return failed(assigner.assign(op)) ? WalkResult::interrupt()
                                         : WalkResult::advance();
    });
    if (walked.wasInterrupted() || failed(checkRules(*loaded, roles, step)))
      signalPassFailure();
  }

  /// A rule of a user's file that matches nothing has a typing error; shipped
  /// policies name ops that a model may lack.
  LogicalResult checkRules(const Policy &loaded, const OpRoles &roles,
                           func::FuncOp step) {
    for (const PolicyRule &rule : loaded.rules) {
      if (!rule.isUser || rule.isOptional)
        continue;
      WalkResult found = step.walk([&](PrecisionOpInterface op) {
        return rule.matches(op, roles) ? WalkResult::interrupt()
                                       : WalkResult::advance();
      });
      if (!found.wasInterrupted())
        return emitError(rule.location)
               << "rule matches no op of this model; 'optional: true' allows "
                  "that"
               << suggestName(rule.match, step);
    }
    return success();
  }

  /// The name of the model's that looks most like what a selector asks for.
  static std::string suggestName(const PolicySelector &match,
                                 func::FuncOp step) {
    llvm::SetVector<StringRef> names;
    step.walk([&](PrecisionOpInterface op) { names.insert(getNodeName(op)); });
    return ::binade::suggest(
        match.name.text, std::vector<std::string>(names.begin(), names.end()));
  }
};
} // namespace
} // namespace mlir::binade
