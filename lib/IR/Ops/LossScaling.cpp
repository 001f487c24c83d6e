//===- LossScaling.cpp - the scale of the loss and its state --------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Diagnostics.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/LossScaling.cpp.inc"

Schedule GradientSeedOp::getSchedule() { return Schedule::Scalars; }
Schedule UnscaleFactorOp::getSchedule() { return Schedule::Scalars; }
Schedule UpdateScaleOp::getSchedule() { return Schedule::Scalars; }

FailureOr<SmallVector<Value>>
GradientSeedOp::decompose(ImplicitLocOpBuilder &b) {
  return SmallVector<Value>{getScale() ? Value(getScale())
                                       : buildSplat(b, getY().getType(), 1.0)};
}

FailureOr<SmallVector<Value>>
UnscaleFactorOp::decompose(ImplicitLocOpBuilder &b) {
  if (!getScale())
    return SmallVector<Value>{buildSplat(b, getY().getType(), 1.0)};
  Value exact = buildCast(b, getScale(), b.getF64Type());
  Value one = buildSplat(b, exact.getType(), 1.0);
  return SmallVector<Value>{
      buildCast(b, DivOp::create(b, one, exact), b.getF32Type())};
}

LogicalResult UpdateScaleOp::verify() {
  double growth = getGrowth().convertToDouble();
  double backoff = getBackoff().convertToDouble();
  auto interval = static_cast<int64_t>(getInterval());
  if (growth > 1.0 && backoff > 0.0 && backoff < 1.0 && interval > 0) // C1
    return success();
  return emitOpError("expects growth above 1, backoff in (0, 1) and an "
                     "interval of at least 1, got ")
         << formatNumber(growth) << ", " << formatNumber(backoff) << " and "
         << interval;
}

FailureOr<SmallVector<Value>>
UpdateScaleOp::decompose(ImplicitLocOpBuilder &b) {
  Value scale = getScale(), count = getGrowthCount(), bad = getFoundInf();
  auto times = [&](const APFloat &factor) {
    Value exact = buildCast(b, scale, b.getF64Type());
    Value number = buildSplat(b, exact.getType(), factor.convertToDouble());
    return buildCast(b, MulOp::create(b, exact, number), b.getF32Type());
  };
  Value one = buildSplat(b, count.getType(), 1);
  Value none = buildSplat(b, count.getType(), 0);
  Value next = AddOp::create(b, count, one);
  Value full =
      CompareOp::create(b, next, buildSplat(b, count.getType(), getInterval()),
                        Comparison::Equal);

  Value grown = times(getGrowth());
  Value infinity = buildSplat(b, grown.getType(), INFINITY);
  Value finite = CompareOp::create(b, grown, infinity, Comparison::Less);
  Value good =
      SelectOp::create(b, AndOp::create(b, full, finite), grown, scale);
  Value goodCount = SelectOp::create(b, full, none, next);
  return SmallVector<Value>{SelectOp::create(b, bad, times(getBackoff()), good),
                            SelectOp::create(b, bad, none, goodCount)};
}
