//===- SkipZeros.cpp - Leave elements without gradient unchanged ----------===//

#include "SkipZeros.h"

using namespace mlir;
using namespace mlir::binade;

/// Adds the setting, and a scalar with its value.
static void addSetting(OptimizerOp rule, func::FuncOp scalars) {
  Builder b(rule.getContext());
  SmallVector<Attribute> hypers(rule.getHypers().begin(),
                                rule.getHypers().end());
  FloatAttr zero = b.getF64FloatAttr(0.0), one = b.getF64FloatAttr(1.0);
  hypers.push_back(SettingAttr::get(b.getContext(), b.getStringAttr(kSkipZeros),
                                    zero, zero, one, FloatAttr()));
  rule.setHypersAttr(b.getArrayAttr(hypers));
  unsigned last = scalars.getNumArguments();
  (void)scalars.insertArgument(last, b.getF64Type(), {}, scalars.getLoc());
  (void)scalars.insertResult(scalars.getNumResults(), b.getF64Type(), {});
  Operation *end = scalars.front().getTerminator();
  end->insertOperands(end->getNumOperands(), scalars.getArgument(last));
}

/// Makes `update` return its first argument, the parameter, and the states,
/// which follow the gradient, where the last scalar is 1 and the gradient is 0.
static void selectOld(func::FuncOp update, unsigned scalar) {
  ImplicitLocOpBuilder b(update.getLoc(), update.getContext());
  (void)update.insertArgument(scalar, b.getF32Type(), {}, b.getLoc());
  Operation *end = update.front().getTerminator();
  b.setInsertionPoint(end);
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  // A gradient that is not a number is not equal to 0.
  Value isZero = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ,
                                       update.getArgument(1), zero);
  Value isAsked = arith::CmpFOp::create(b, arith::CmpFPredicate::ONE,
                                        update.getArgument(scalar), zero);
  Value isSkipped = arith::AndIOp::create(b, isZero, isAsked);
  for (OpOperand &result : end->getOpOperands()) {
    unsigned number = result.getOperandNumber();
    Value old = update.getArgument(number == 0 ? 0 : 1 + number);
    result.set(arith::SelectOp::create(b, isSkipped, old, result.get()));
  }
}

LogicalResult mlir::binade::skipZeros(OptimizerOp rule) {
  if (!getPrepares(rule).empty())
    return rule.emitError("computes on whole tensors, and '")
           << kSkipZeros << "' leaves single elements unchanged; leave it out";
  auto module = rule->getParentOfType<ModuleOp>();
  auto find = [&](StringRef suffix) {
    return module.lookupSymbol<func::FuncOp>(
        (rule.getSymName() + suffix).str());
  };
  func::FuncOp scalars = find(".scalars"), update = find(".update");
  selectOld(update, 2 + rule.getStates().size() + scalars.getNumResults());
  addSetting(rule, scalars);
  return success();
}
