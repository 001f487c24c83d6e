//===- Saturate.cpp - Clamping to the range of a format -------------------===//

#include "binade/Codegen/Saturate.h"
#include "../Lanes.h"
#include "binade/IR/Formats.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::binade;

Value mlir::binade::clampTo(ImplicitLocOpBuilder &b, Value x,
                            FloatType format) {
  double largest = getLargest(format);
  return atLeast(atMost({b, x}, largest), -largest).value;
}

/// Returns y if `x` is `y predicate bound ? bound : y`, otherwise null.
static Value getUnbounded(Value x, arith::CmpFPredicate predicate,
                          double bound) {
  auto select = x.getDefiningOp<arith::SelectOp>();
  if (!select)
    return {};
  auto compare = select.getCondition().getDefiningOp<arith::CmpFOp>();
  APFloat limit(0.0);
  if (!compare || compare.getPredicate() != predicate ||
      compare.getLhs() != select.getFalseValue() ||
      compare.getRhs() != select.getTrueValue() ||
      !matchPattern(compare.getRhs(), m_ConstantFloat(&limit)) ||
      limit.convertToDouble() != bound)
    return {};
  return select.getFalseValue();
}

Value mlir::binade::getUnclamped(Value x, FloatType format) {
  double largest = getLargest(format);
  Value below = getUnbounded(x, arith::CmpFPredicate::OLT, -largest);
  return below ? getUnbounded(below, arith::CmpFPredicate::OGT, largest)
               : Value();
}
