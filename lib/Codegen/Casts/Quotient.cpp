//===- Quotient.cpp - Division of many values by one divisor --------------===//

#include "Quotient.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Scale and reciprocal are negative, so that zeros keep their sign.
SmallVector<FloatLanes, 4> mlir::binade::prepareDivisor(FloatLanes divisor) {
  FloatLanes unit = select(divisor < 0x1p64, -1.0, divisor.constant(-0x1p-32));
  unit = select(divisor < 0x1p32, -0x1p64, unit);
  // 1 / x takes fewer instructions than -1 / x.
  FloatLanes opposite = divisor * unit;
  FloatLanes inverse = opposite.constant(1.0) / opposite;
  // With an infinite divisor, the first multiplication gives the quotient.
  FloatLanes own = select(opposite == -INFINITY, 1.0, -opposite);
  return {unit, own, inverse};
}

SmallVector<FloatLanes, 4>
mlir::binade::prepareBoundedDivisor(FloatLanes divisor) {
  // LLVM would divide -1 by the divisor instead of 1 by a negation.
  FloatLanes opposite = divisor.constant(0.0) - divisor;
  FloatLanes inverse = opposite.constant(1.0) / opposite;
  FloatLanes own = select(divisor == INFINITY, 1.0, divisor);
  return {divisor.constant(-1.0), own, inverse};
}

FloatLanes mlir::binade::divideBy(FloatLanes x, ArrayRef<FloatLanes> divisor) {
  FloatLanes unit = divisor[0], own = divisor[1], inverse = divisor[2];
  FloatLanes opposite = x * unit;
  FloatLanes quotient = opposite * inverse;
  FloatLanes excess = fma(own, quotient, opposite);
  return fma(excess, inverse, quotient);
}

FloatLanes mlir::binade::divideByConstant(FloatLanes x, float divisor) {
  FloatLanes inverse = x.constant(static_cast<double>(1.0f / divisor));
  FloatLanes quotient = x * inverse;
  FloatLanes excess =
      fma(x.constant(-static_cast<double>(divisor)), quotient, x);
  return select(x < INFINITY, fma(excess, inverse, quotient), x);
}

/// Whether the bits of a value are in [least, beyond).
static BoolLanes isWithin(FloatLanes number, uint64_t least, uint64_t beyond) {
  IntLanes above = number.bits() - least;
  return above.compare(arith::CmpIPredicate::ult,
                       above.constant(beyond - least));
}

BoolLanes mlir::binade::isDivisor(FloatLanes number) {
  constexpr uint64_t kMinNormal = 0x00800000, kInfinity = 0x7f800000;
  return isWithin(number, kMinNormal, kInfinity);
}

BoolLanes mlir::binade::isDivisorOfRoots(FloatLanes number) {
  // Quotients are in [2^-99, 2^124], and their errors 2^-24 times as large.
  constexpr uint64_t kMin = (127 - 60) << 23, kBeyond = (127 + 24) << 23;
  return isWithin(number, kMin, kBeyond);
}

/// The reciprocal is negative, so that zeros keep their sign.
FloatLanes mlir::binade::divideRoot(FloatLanes x, FloatLanes divisor,
                                    FloatLanes opposite) {
  FloatLanes quotient = -x * opposite;
  FloatLanes excess = fma(divisor, quotient, -x);
  return fma(excess, opposite, quotient);
}

static SmallVector<Value> getLanes(ImplicitLocOpBuilder &b, Value x) {
  auto type = dyn_cast<VectorType>(x.getType());
  if (!type)
    return {x};
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < type.getNumElements(); ++lane)
    lanes.push_back(vector::ExtractOp::create(b, x, lane));
  return lanes;
}

BoolLanes mlir::binade::isFinite(FloatLanes quotient) {
  ImplicitLocOpBuilder &b = *quotient.builder;
  // 0 times a value that is not finite is NaN.
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f)),
        sum = zero;
  for (Value lane : getLanes(b, quotient.value))
    sum = math::FmaOp::create(b, lane, zero, sum);
  return FloatLanes(b, sum) == 0.0;
}

BoolLanes mlir::binade::isFiniteRoot(FloatLanes quotient) {
  ImplicitLocOpBuilder &b = *quotient.builder;
  SmallVector<Value> lanes = getLanes(b, quotient.value);
  FloatLanes sum(b, lanes.front());
  for (Value lane : ArrayRef(lanes).drop_front())
    sum = sum + FloatLanes(b, lane);
  return sum < INFINITY;
}

FloatLanes mlir::binade::divideElsewhere(FloatLanes x, FloatLanes divisor,
                                         FloatLanes quotient, BoolLanes holds) {
  ImplicitLocOpBuilder &b = *x.builder;
  Type type = x.value.getType();
  auto branch =
      scf::IfOp::create(b, type, holds.value, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(b, quotient.value);
  b.setInsertionPointToEnd(branch.elseBlock());
  // The lanes are divided one by one: LLVM would replace the branch by a single
  // vector division that is always executed.
  SmallVector<Value> divided;
  for (Value lane : getLanes(b, x.value))
    divided.push_back(arith::DivFOp::create(b, lane, divisor.value));
  Value all = divided.front();
  if (auto vector = dyn_cast<VectorType>(type))
    all = vector::FromElementsOp::create(b, vector, divided);
  scf::YieldOp::create(b, all);
  return {b, branch.getResult(0)};
}
