//===- SkipZeros.cpp - Leave elements without gradient unchanged ----------===//

#include "SkipZeros.h"
#include "Formulas.h"

using namespace mlir;
using namespace mlir::binade;

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
  func::FuncOp scalars = findFormula(rule, ".scalars"),
               update = findFormula(rule, ".update");
  selectOld(update, 2 + rule.getStates().size() + scalars.getNumResults());
  Builder b(rule.getContext());
  FloatAttr zero = b.getF64FloatAttr(0.0), one = b.getF64FloatAttr(1.0);
  addResult(scalars, addSetting(rule, scalars,
                                SettingAttr::get(
                                    b.getContext(), b.getStringAttr(kSkipZeros),
                                    zero, zero, one, FloatAttr())));
  return success();
}
