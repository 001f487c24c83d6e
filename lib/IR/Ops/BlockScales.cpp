//===- BlockScales.cpp - Scales below the scale of a tensor ---------------===//

#include "BlockScales.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr double kMaxFloat = std::numeric_limits<float>::max();

static Value buildConstant(ImplicitLocOpBuilder &b, Value like, double value) {
  return buildSplat(b, like.getType(), value);
}

/// Returns the inverse of the scale of a tensor whose largest magnitude is
/// `largest`: the factor that maps it to the largest value of the format. It is
/// 1 for 0 and infinity; NaN stays NaN.
static Value chooseTensorFactor(ImplicitLocOpBuilder &b, Value largest,
                                QuantizedAttr format) {
  Value peak = buildConstant(b, largest, format.getTensorPeak());
  Value factor = MinOp::create(b, DivOp::create(b, peak, largest),
                               buildConstant(b, largest, kMaxFloat));
  for (Value number : {largest, factor}) {
    Value isZero = CompareOp::create(b, number, buildConstant(b, number, 0.0),
                                     Comparison::Equal);
    factor = SelectOp::create(b, isZero, buildConstant(b, factor, 1.0), factor);
  }
  return factor;
}

BlockScales mlir::binade::chooseBlockScales(ImplicitLocOpBuilder &b, Value amax,
                                            Value largest,
                                            QuantizedAttr format) {
  auto type = cast<RankedTensorType>(amax.getType());
  auto broadcast = [&](Value scalar) {
    return buildBroadcast(b, scalar, {}, type.getShape());
  };
  BlockScales scales;
  Value tensorFactor;
  if (largest) {
    tensorFactor = chooseTensorFactor(b, largest, format);
    scales.tensorScale =
        DivOp::create(b, buildConstant(b, largest, 1.0), tensorFactor);
  }
  Value wide; // The scale of each block in f32.
  if (format.roundsScales()) {
    auto unit = [&](Value like) {
      return buildConstant(b, like, 1.0f / float(format.getPeak()));
    };
    Value perUnit =
        largest ? broadcast(MulOp::create(b, tensorFactor, unit(largest)))
                : unit(amax);
    scales.scale =
        CastOp::create(b, type.clone(format.getScale()),
                       MulOp::create(b, amax, perUnit), /*saturate=*/true);
    wide = buildCast(b, scales.scale, b.getF32Type());
  } else {
    Value scaled = MulOp::create(b, amax, broadcast(tensorFactor));
    auto chosen = ChooseScaleOp::create(b, scaled, /*least=*/Value(),
                                        format.withoutTensorScale());
    scales.scale = chosen.getScale();
    wide = chosen.getFactor();
  }
  if (largest)
    wide = MulOp::create(b, wide, broadcast(scales.tensorScale));
  Value inverse = DivOp::create(b, buildConstant(b, amax, 1.0), wide);
  scales.factor =
      MinOp::create(b, inverse, buildConstant(b, inverse, kMaxFloat));
  return scales;
}
