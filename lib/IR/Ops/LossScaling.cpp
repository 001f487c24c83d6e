//===- LossScaling.cpp - Loss scale and its state -------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Diagnostics.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/LossScaling.cpp.inc"

Schedule GradientSeedOp::getSchedule() { return Schedule::Scalars; }
Schedule UnscaleFactorOp::getSchedule() { return Schedule::Scalars; }
/// The reciprocal of a smaller scale is infinite in f32, which makes gradients
/// of 0 NaN.
static constexpr double kMinScale = 0x1p-126;

Schedule UpdateScaleOp::getSchedule() { return Schedule::Scalars; }
Schedule RaiseScaleOp::getSchedule() { return Schedule::Scalars; }

FailureOr<SmallVector<Value>>
GradientSeedOp::decompose(ImplicitLocOpBuilder &b) {
  return SmallVector<Value>{getScale() ? Value(getScale())
                                       : buildSplat(b, getY().getType(), 1.0)};
}

FailureOr<SmallVector<Value>>
UnscaleFactorOp::decompose(ImplicitLocOpBuilder &b) {
  auto wide = RankedTensorType::get({}, b.getF64Type());
  auto batches = static_cast<double>(getBatches());
  if (!getScale())
    return SmallVector<Value>{buildSplat(b, getY().getType(), 1.0 / batches)};
  Value exact = buildCast(b, getScale(), b.getF64Type());
  if (getBatches() > 1)
    exact = MulOp::create(b, exact, buildSplat(b, wide, batches));
  Value one = buildSplat(b, wide, 1.0);
  return SmallVector<Value>{
      buildCast(b, DivOp::create(b, one, exact), b.getF32Type())};
}

LogicalResult UnscaleFactorOp::verify() {
  if (static_cast<int64_t>(getBatches()) < 1) // C1
    return emitOpError("expects at least one batch, got ")
           << static_cast<int64_t>(getBatches());
  return success();
}

LogicalResult UpdateScaleOp::verify() {
  double growth = getGrowth().convertToDouble();
  double backoff = getBackoff().convertToDouble();
  auto interval = static_cast<int64_t>(getInterval());
  if (!(growth > 1.0 && backoff > 0.0 && backoff < 1.0 && interval > 0)) // C1
    return emitOpError("expects growth above 1, backoff in (0, 1) and an "
                       "interval of at least 1, got ")
           << formatNumber(growth) << ", " << formatNumber(backoff) << " and "
           << interval;
  double least = getMin().value_or(APFloat(0.0)).convertToDouble();
  double most = getMax().value_or(APFloat(INFINITY)).convertToDouble();
  if (!(0.0 <= least && least <= most)) // C2
    return emitOpError("expects 0 <= min <= max, got ")
           << formatNumber(least) << " and " << formatNumber(most);
  auto delay = static_cast<int64_t>(getDelay());
  auto hysteresis = static_cast<int64_t>(getHysteresis());
  if (delay < 0 || hysteresis < 1) // C3
    return emitOpError("expects a delay of at least 0 and a hysteresis of at "
                       "least 1, got ")
           << delay << " and " << hysteresis;
  Value left = getHysteresisLeft(), next = getNewHysteresisLeft();
  bool counts = hysteresis > 1;
  if (bool(left) != counts || bool(next) != counts || // C4
      (counts && left.getType() != next.getType()))
    return emitOpError("expects the count of overflows to let pass, and its "
                       "successor of the same type, if hysteresis is above 1");
  return success();
}

FailureOr<SmallVector<Value>>
UpdateScaleOp::decompose(ImplicitLocOpBuilder &b) {
  Value scale = getScale(), count = getGrowthCount(), bad = getFoundInf();
  auto number = [&](double value) {
    return buildSplat(b, scale.getType(), value);
  };
  auto counter = [&](int64_t value) {
    return buildSplat(b, count.getType(), value);
  };
  auto times = [&](const APFloat &factor) {
    Value exact = buildCast(b, scale, b.getF64Type());
    Value other = buildSplat(b, exact.getType(), factor.convertToDouble());
    return buildCast(b, MulOp::create(b, exact, other), b.getF32Type());
  };
  Value next = AddOp::create(b, count, counter(1));
  Value full =
      CompareOp::create(b, next, counter(getInterval()), Comparison::Equal);
  Value grown = times(getGrowth()), lowered = times(getBackoff());
  Value finite =
      CompareOp::create(b, grown, number(INFINITY), Comparison::Less);
  if (getMax())
    grown = MinOp::create(b, grown, number(getMax()->convertToDouble()));
  double least = getMin().value_or(APFloat(0.0)).convertToDouble();
  lowered = MaxOp::create(b, lowered, number(std::max(least, kMinScale)));

  Value left = getHysteresisLeft(), last, fewer;
  if (left) {
    Value one = buildSplat(b, left.getType(), 1);
    last = CompareOp::create(b, left, one, Comparison::Equal);
    lowered = SelectOp::create(b, last, lowered, scale);
    fewer = SelectOp::create(b, last, one, SubOp::create(b, left, one));
  }
  Value good =
      SelectOp::create(b, AndOp::create(b, full, finite), grown, scale);
  Value goodCount = SelectOp::create(b, full, counter(0), next);
  SmallVector<Value> values = {
      SelectOp::create(b, bad, lowered, good),
      SelectOp::create(b, bad, counter(-int64_t(getDelay())), goodCount)};
  if (left) {
    Value all = buildSplat(b, left.getType(), getHysteresis());
    Value refilled = getConsecutiveHysteresis()
                         ? all
                         : Value(SelectOp::create(b, full, all, left));
    values.push_back(SelectOp::create(b, bad, fewer, refilled));
  }
  return values;
}

LogicalResult RaiseScaleOp::verify() {
  double growth = getGrowth().convertToDouble(),
         limit = getLimit().convertToDouble(),
         largest = getLargest().convertToDouble();
  auto check = static_cast<int64_t>(getCheck());
  if (!(growth > 1.0 && check > 0 && limit >= 0.0 && limit <= 1.0 &&
        largest > 0.0)) // C1
    return emitOpError("expects growth above 1, a check of at least 1, a limit "
                       "from 0 to 1 and a largest above 0, got ")
           << formatNumber(growth) << ", " << check << ", "
           << formatNumber(limit) << " and " << formatNumber(largest);
  return success();
}

FailureOr<SmallVector<Value>> RaiseScaleOp::decompose(ImplicitLocOpBuilder &b) {
  Value scale = getScale(), count = getGrowthCount();
  Type real = b.getF64Type();
  auto counter = [&](int64_t value) {
    return buildSplat(b, count.getType(), value);
  };
  auto times = [&](Value x, const APFloat &factor) -> Value {
    Value exact = buildCast(b, x, real);
    return MulOp::create(
        b, exact, buildSplat(b, exact.getType(), factor.convertToDouble()));
  };
  Value exact = buildCast(b, count, real);
  Value check = buildSplat(b, exact.getType(), static_cast<double>(getCheck()));
  // Casts to integers round toward 0.
  Value rounds = buildCast(b, DivOp::create(b, exact, check),
                           getElementTypeOrSelf(count.getType()));
  Value isMultiple =
      CompareOp::create(b, MulOp::create(b, rounds, counter(getCheck())), count,
                        Comparison::Equal);
  Value due = AndOp::create(
      b, isMultiple,
      CompareOp::create(b, count, counter(0), Comparison::Greater));
  Value vanishes =
      CompareOp::create(b, buildCast(b, getVanished(), real),
                        times(getNonzero(), getLimit()), Comparison::Greater);
  due = AndOp::create(b, due, vanishes);
  Value reached = times(getAmax(), getGrowth());
  Value fits = CompareOp::create(
      b, reached,
      buildSplat(b, reached.getType(), getLargest().convertToDouble()),
      Comparison::LessEqual);
  Value raises = AndOp::create(b, due, fits);
  Value grown = buildCast(b, times(scale, getGrowth()), b.getF32Type());
  return SmallVector<Value>{SelectOp::create(b, raises, grown, scale),
                            SelectOp::create(b, raises, counter(0), count),
                            AndOp::create(b, due, NotOp::create(b, fits))};
}
