//===- AssignPrecision.cpp - Decide the formats of every op ---------------===//
// One forward walk: producers of an `infer` op are decided before the op.
//===----------------------------------------------------------------------===//

#include "binade/IR/Interface.h"
#include "binade/Precision/Passes.h"
#include "binade/Precision/Policy.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"

namespace mlir::binade {
#define GEN_PASS_DEF_ASSIGNPRECISIONPASS
#include "binade/Precision/Passes.h.inc"

static constexpr auto kRemark =
    remark::RemarkOpts::name("AssignPrecision").category("precision");

namespace {
class Assigner {
public:
  Assigner(const Policy &policy, MLIRContext *context)
      : policy(policy), context(context) {}

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
           << remark::metric("compute", text(decision.getCompute()))
           << remark::metric("result", text(decision.getResult()))
           << remark::metric("rule", decision.isPin()
                                         ? "pin"
                                         : decision.getRule().getValue());
    return success();
  }

private:
  static std::string text(Type type) {
    std::string result;
    llvm::raw_string_ostream(result) << type;
    return result;
  }

  static bool hasChosenFormat(PrecisionOpInterface op) {
    for (unsigned i = 0, e = op->getNumOperands(); i < e; ++i)
      if (op.getOperandFormat(i) == FormatRole::Chosen)
        return true;
    for (unsigned i = 0, e = op->getNumResults(); i < e; ++i)
      if (op.getResultFormat(i) == FormatRole::Chosen)
        return true;
    return false;
  }

  PrecisionAttr decide(PrecisionOpInterface op) {
    const PolicyRule *rule = policy.findRule(op);
    PolicySettings settings = rule ? rule->settings : PolicySettings();
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
        context, compute, accumulate, result, StringAttr::get(context, origin));
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

  /// The format that `value` will have.
  Type getFormat(Value value) const {
    auto op = value.getDefiningOp<PrecisionOpInterface>();
    if (op && op.getPrecisionAttr()) {
      unsigned index = cast<OpResult>(value).getResultNumber();
      if (op.getResultFormat(index) == FormatRole::Chosen)
        return op.getPrecisionAttr().getResult();
    }
    return getElementTypeOrSelf(value.getType());
  }

  const Policy &policy;
  MLIRContext *context;
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
    module->setAttr(kPolicyAttr, loaded->toAttribute(&getContext()));
    if (loaded->isIdentity())
      return;
    Assigner assigner(*loaded, &getContext());
    WalkResult walked = step.walk([&](PrecisionOpInterface op) {
      return failed(assigner.assign(op)) ? WalkResult::interrupt()
                                         : WalkResult::advance();
    });
    if (walked.wasInterrupted() || failed(checkRules(*loaded, step)))
      signalPassFailure();
  }

  /// A rule of a user's file that matches nothing has a typing error; shipped
  /// policies name ops that a model may lack.
  LogicalResult checkRules(const Policy &loaded, func::FuncOp step) {
    if (!loaded.isFile)
      return success();
    for (const PolicyRule &rule : loaded.rules) {
      WalkResult found = step.walk([&](PrecisionOpInterface op) {
        return rule.matches(op) ? WalkResult::interrupt()
                                : WalkResult::advance();
      });
      if (!rule.isOptional && !found.wasInterrupted())
        return emitError(rule.location, "rule matches no op of this model; "
                                        "'optional: true' allows that");
    }
    return success();
  }
};
} // namespace
} // namespace mlir::binade
