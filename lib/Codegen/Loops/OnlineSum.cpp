//===- OnlineSum.cpp - Softmax statistics in one pass ---------------------===//

#include "OnlineSum.h"
#include "../Math/Expansions.h"
#include "binade/IR/Accuracy.h"
#include "binade/IR/Build.h"
#include <limits>

using namespace mlir;
using namespace mlir::binade;

std::optional<OnlineSum> OnlineSum::from(Reduction sum) {
  auto exponential = sum.getInput().getDefiningOp<ExpOp>();
  auto below =
      exponential ? exponential.getX().getDefiningOp<SubOp>() : nullptr;
  auto spread = below ? below.getRhs().getDefiningOp<BroadcastOp>() : nullptr;
  auto maximum = spread ? spread.getX().getDefiningOp<ReduceMaxOp>() : nullptr;
  if (!isa<ReduceSumOp>(sum.op) || !maximum || !sum.getPartialType().isF32())
    return std::nullopt;
  Reduction first = {maximum};
  bool isPair = first.getInput() == below.getLhs() &&
                first.getLoops() == sum.getLoops() &&
                getTensor(first.getInput()).getElementType().isF32() &&
                !first.isOfMagnitudes();
  return isPair
             ? std::optional<OnlineSum>({first, sum, getAccuracy(exponential)})
             : std::nullopt;
}

/// Not an infinity, whose difference to itself is NaN.
static constexpr double kLowest = -0x1.fffffep127;
/// How far elements may exceed the reference. Their exponentials are far from
/// overflow.
static constexpr double kSlack = 32;

Value OnlineSum::start(Emitter &emitter) const {
  ImplicitLocOpBuilder &b = emitter.builder();
  return arith::ConstantOp::create(b, b.getF32FloatAttr(kLowest));
}

/// Returns `sums` + exp(x) for x <= 32. Below -87 the exponential is that of
/// -87, which is too small to change a sum that contains exp(0).
static FloatLanes addExponential(FloatLanes sums, FloatLanes x,
                                 FloatType accuracy) {
  ScaledExp exp = splitExp(atLeast(x, -87.0), 127, accuracy);
  return fma(exp.fraction, floatFromBits(exp.shifted << 23), sums);
}

OnlineSum::Partial OnlineSum::accumulate(Emitter &emitter, Partial partial,
                                         Value maxima,
                                         ArrayRef<Value> x) const {
  ImplicitLocOpBuilder &b = emitter.builder();
  auto broadcast = [&](FloatLanes scalar) {
    return FloatLanes(b, emitter.broadcast(scalar.value));
  };
  Value largest = combineLanes(
      b, maxima, [&](Value x, Value y) { return maximum.combine(b, x, y); });
  largest = arith::MaximumFOp::create(b, largest, start(emitter));
  FloatLanes before(b, partial.reference);
  // Also true for NaN, which becomes the reference and the sum.
  BoolLanes isHigher = FloatLanes(b, largest)
                           .compare(arith::CmpFPredicate::UGT, before + kSlack);
  SmallVector<Value> values = emitter.conditional(
      isHigher.value, {partial.sums, partial.reference}, [&] {
        FloatLanes factor =
            (before - FloatLanes(b, largest)).apply<math::ExpOp>();
        FloatLanes sums = FloatLanes(b, partial.sums) * broadcast(factor);
        return SmallVector<Value>{sums.value, largest};
      });
  FloatLanes total(b, values[0]), next(b, values[1]);
  for (Value element : x)
    total = addExponential(total, FloatLanes(b, element) - broadcast(next),
                           accuracy);
  return {total.value, next.value};
}

Value OnlineSum::finish(Emitter &emitter, Partial partial, Value total) const {
  ImplicitLocOpBuilder &b = emitter.builder();
  auto add = [&](Value x, Value y) { return sum.combine(b, x, y); };
  FloatLanes all(b, total), reference(b, partial.reference);
  // The second difference is 0, or NaN if no sum is defined: the row has an
  // infinite maximum.
  FloatLanes below = (reference - all) + (all - all);
  FloatLanes own = FloatLanes(b, combineLanes(b, partial.sums, add)) *
                   below.apply<math::ExpOp>();
  return emitter.combineThreads(own.value, add);
}
