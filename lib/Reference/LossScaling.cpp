//===- LossScaling.cpp - the scale of the loss and its state --------------===//

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
  e.result()[0] = op.getScale() ? 1.0 / e[op.getScale()][0] : 1.0;
}

/// GradScaler's update, with products in f64 that are rounded to f32.
static void evaluateUpdateScale(UpdateScaleOp op, Evaluation &e) {
  FloatFormat f32(APFloat::IEEEsingle());
  double scale = e[op.getScale()][0];
  int64_t count = e[op.getGrowthCount()].getIntegers()[0] + 1;
  if (e[op.getFoundInf()].getIntegers()[0]) {
    scale = f32.round(scale * op.getBackoff().convertToDouble());
    count = 0;
  } else if (count == static_cast<int64_t>(op.getInterval())) {
    double grown = f32.round(scale * op.getGrowth().convertToDouble());
    scale = std::isfinite(grown) ? grown : scale;
    count = 0;
  }
  e.result(0)[0] = scale;
  e.result(1).getIntegers()[0] = count;
}

void mlir::binade::addLossScaling(Reference &reference) {
  reference.add<GradientSeedOp>(evaluateGradientSeed);
  reference.add<UnscaleFactorOp>(evaluateUnscaleFactor);
  reference.add<UpdateScaleOp>(evaluateUpdateScale);
}
