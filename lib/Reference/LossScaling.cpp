//===- LossScaling.cpp - Loss scale and its state -------------------------===//

#include "Families.h"
#include "binade/Reference/FloatFormat.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

static void evaluateGradientSeed(GradientSeedOp op, Evaluation &e) {
  llvm::fill(e.result().getFloats(), 1.0);
  if (op.getScale())
    e.setResult(0, e.getOperands().front());
}

static void evaluateUnscaleFactor(UnscaleFactorOp op, Evaluation &e) {
  double scale = op.getScale() ? e[op.getScale()][0] : 1.0;
  e.result()[0] = 1.0 / (scale * static_cast<double>(op.getBatches()));
}

/// Multiplies in f64 and rounds to f32.
static void evaluateUpdateScale(UpdateScaleOp op, Evaluation &e) {
  FloatFormat f32(APFloat::IEEEsingle());
  double scale = e[op.getScale()][0];
  int64_t count = e[op.getGrowthCount()].getIntegers()[0] + 1;
  auto full = static_cast<int64_t>(op.getHysteresis());
  Value state = op.getHysteresisLeft();
  int64_t left = state ? e[state].getIntegers()[0] : 1;
  if (e[op.getFoundInf()].getIntegers()[0]) {
    if (left > 1) {
      --left;
    } else {
      scale = std::max(f32.round(scale * op.getBackoff().convertToDouble()),
                       0x1p-126);
      if (op.getMin())
        scale = std::max(scale, f32.round(op.getMin()->convertToDouble()));
    }
    count = -static_cast<int64_t>(op.getDelay());
  } else {
    bool grows = count == static_cast<int64_t>(op.getInterval());
    if (grows) {
      double grown = f32.round(scale * op.getGrowth().convertToDouble());
      if (std::isfinite(grown))
        scale = op.getMax()
                    ? std::min(grown, f32.round(op.getMax()->convertToDouble()))
                    : grown;
      count = 0;
    }
    if (grows || op.getConsecutiveHysteresis())
      left = full;
  }
  e.result(0)[0] = scale;
  e.result(1).getIntegers()[0] = count;
  if (state)
    e.result(2).getIntegers()[0] = left;
}

static void evaluateRaiseScale(RaiseScaleOp op, Evaluation &e) {
  FloatFormat f32(APFloat::IEEEsingle());
  double scale = e[op.getScale()][0], growth = op.getGrowth().convertToDouble();
  int64_t count = e[op.getGrowthCount()].getIntegers()[0];
  auto vanished = static_cast<double>(e[op.getVanished()].getIntegers()[0]),
       nonzero = static_cast<double>(e[op.getNonzero()].getIntegers()[0]);
  bool isDue = count > 0 && count % static_cast<int64_t>(op.getCheck()) == 0 &&
               vanished > op.getLimit().convertToDouble() * nonzero;
  bool fits = e[op.getAmax()][0] * growth <= op.getLargest().convertToDouble();
  e.result(0)[0] = isDue && fits ? f32.round(scale * growth) : scale;
  e.result(1).getIntegers()[0] = isDue && fits ? 0 : count;
  e.result(2).getIntegers()[0] = isDue && !fits;
}

void mlir::binade::addLossScaling(Reference &reference) {
  reference.add<GradientSeedOp>(evaluateGradientSeed);
  reference.add<UnscaleFactorOp>(evaluateUnscaleFactor);
  reference.add<UpdateScaleOp>(evaluateUpdateScale);
  reference.add<RaiseScaleOp>(evaluateRaiseScale);
}
