//===- CodeQuotient.cpp - division for codes of 8 bits --------------------===//
//
// A division is ten instructions. Where many numbers are divided by one, s, its
// reciprocal r is found once, and q = x r is corrected by -(q s - x) r. That is
// x / s, rounded, but for 2^-22 of a unit in the last place before it is.
//
// The code is that of x / s. It could be another only where x / s is as close
// to half a unit beside a number of five bits, a code or the middle of two: for
// integers X, S of 24 bits, m of five and M = 2^20 m +- 1, |2^j X - S M| <= 8.
// As 2^20 divides 2^j X and 2^20 m S, S is then within 8 of a multiple of 2^20.
// test_gpu_quotients.py has all such X and S.
//
// This holds of scales between 2^-64 and 2^64, where nothing that matters to a
// code underflows. Other scales, and vectors with a number that is not finite,
// or overflows, are divided. The difference is taken from q s, not from x: then
// zeros keep their sign.
//
//===----------------------------------------------------------------------===//

#include "CodeQuotient.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::binade;

/// Bits of the least scale, and how many more the largest has.
static constexpr int32_t kLeast = (127 - 64) << 23, kRange = 128 << 23;

static Value constant(ImplicitLocOpBuilder &b, Type type, TypedAttr value) {
  if (auto vector = dyn_cast<VectorType>(type))
    value = DenseElementsAttr::get(vector, Attribute(value));
  return arith::ConstantOp::create(b, value);
}
static Value constant(ImplicitLocOpBuilder &b, Type type, float value) {
  return constant(b, type, b.getF32FloatAttr(value));
}
static Value constant(ImplicitLocOpBuilder &b, Type type, int32_t value) {
  return constant(b, type, b.getI32IntegerAttr(value));
}

/// Whether all lanes of `scale`, or itself, are in the range.
static Value isOrdinary(ImplicitLocOpBuilder &b, Value scale) {
  Type word = b.getI32Type();
  auto vector = dyn_cast<VectorType>(scale.getType());
  if (vector)
    word = vector.clone(word);
  Value bits = arith::BitcastOp::create(b, word, scale);
  Value above = arith::SubIOp::create(b, bits, constant(b, word, kLeast));
  Value is = arith::CmpIOp::create(b, arith::CmpIPredicate::ule, above,
                                   constant(b, word, kRange));
  return vector ? vector::ReductionOp::create(b, vector::CombiningKind::AND, is)
                : is;
}

/// Whether no lane of `x` is NaN or infinite: 0 times those is NaN.
static Value isFinite(ImplicitLocOpBuilder &b, Value x) {
  Value zero = constant(b, b.getF32Type(), 0.0f), sum = zero;
  int64_t lanes = cast<VectorType>(x.getType()).getNumElements();
  for (int64_t lane = 0; lane < lanes; ++lane)
    sum = math::FmaOp::create(b, vector::ExtractOp::create(b, x, lane), zero,
                              sum);
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sum, zero);
}

/// What lanes of the divisor have: one number, or numbers that were known
/// before the loop of `division`. Null where each has its own.
static Value findShared(arith::DivFOp division) {
  Value by = division.getRhs();
  if (auto spread = by.getDefiningOp<vector::BroadcastOp>())
    return isa<VectorType>(spread.getSourceType()) ? Value()
                                                   : spread.getSource();
  auto loop = division->getParentOfType<LoopLikeOpInterface>();
  return loop && loop.isDefinedOutsideOfLoop(by) ? by : Value();
}

Value mlir::binade::divideForCodes(ImplicitLocOpBuilder &b, Value x) {
  auto division = x.getDefiningOp<arith::DivFOp>();
  auto type = dyn_cast<VectorType>(x.getType());
  Value shared = division && type && type.getElementType().isF32()
                     ? findShared(division)
                     : Value();
  if (!shared || matchPattern(shared, m_Constant()))
    return x;
  Value inverse, negative, isUsual;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfterValue(shared);
    inverse =
        arith::DivFOp::create(b, constant(b, shared.getType(), 1.0f), shared);
    negative = arith::NegFOp::create(b, inverse);
    isUsual = isOrdinary(b, shared);
  }
  auto spread = [&](Value value) -> Value {
    return value.getType() == type
               ? value
               : vector::BroadcastOp::create(b, type, value).getResult();
  };
  Value numbers = division.getLhs(), by = division.getRhs();
  Value opposite = arith::NegFOp::create(b, numbers);
  Value first = arith::MulFOp::create(b, numbers, spread(inverse));
  Value over = math::FmaOp::create(b, first, by, opposite);
  Value quotient = math::FmaOp::create(b, over, spread(negative), first);
  Value holds = arith::AndIOp::create(b, isUsual, isFinite(b, quotient));
  auto branch = scf::IfOp::create(b, type, holds, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(b, quotient);
  b.setInsertionPointToEnd(branch.elseBlock());
  // One by one: LLVM would rather do a single operation always than branch.
  SmallVector<Value> divided;
  for (int64_t lane = 0; lane < type.getNumElements(); ++lane)
    divided.push_back(
        arith::DivFOp::create(b, vector::ExtractOp::create(b, numbers, lane),
                              vector::ExtractOp::create(b, by, lane)));
  scf::YieldOp::create(
      b, ValueRange(vector::FromElementsOp::create(b, type, divided)));
  return branch.getResult(0);
}
