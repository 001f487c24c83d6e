//===- BlockScales.cpp - Scales below the scale of a tensor ---------------===//

#include "BlockScales.h"
#include "binade/IR/Build.h"
#include "binade/IR/CorrectedBlocks.h"
#include "binade/IR/SumInOrderOp.h"

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

/// Broadcasts a scalar to the shape of `like`.
static Value broadcastTo(ImplicitLocOpBuilder &b, Value scalar, Value like) {
  auto type = cast<RankedTensorType>(like.getType());
  return buildBroadcast(b, scalar, {}, type.getShape());
}

/// Returns the factor of elements whose scale, that of their block times that
/// of the tensor, is `scale`.
static Value invertScale(ImplicitLocOpBuilder &b, Value scale) {
  Value inverse = DivOp::create(b, buildConstant(b, scale, 1.0), scale);
  return MinOp::create(b, inverse, buildConstant(b, inverse, kMaxFloat));
}

BlockScales mlir::binade::chooseBlockScales(ImplicitLocOpBuilder &b, Value amax,
                                            Value largest,
                                            QuantizedAttr format) {
  auto type = cast<RankedTensorType>(amax.getType());
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
        largest ? broadcastTo(b, MulOp::create(b, tensorFactor, unit(largest)),
                              amax)
                : unit(amax);
    scales.scale =
        CastOp::create(b, type.clone(format.getScale()),
                       MulOp::create(b, amax, perUnit), /*saturate=*/true);
    wide = buildCast(b, scales.scale, b.getF32Type());
  } else {
    Value scaled = MulOp::create(b, amax, broadcastTo(b, tensorFactor, amax));
    auto chosen = ChooseScaleOp::create(b, scaled, /*least=*/Value(),
                                        format.withoutTensorScale());
    scales.scale = chosen.getScale();
    wide = chosen.getFactor();
  }
  if (largest)
    wide = MulOp::create(b, wide, broadcastTo(b, scales.tensorScale, amax));
  scales.factor = invertScale(b, wide);
  return scales;
}

//===----------------------------------------------------------------------===//
// The better of two scales
//===----------------------------------------------------------------------===//

/// Returns `count` elements of `x` along `axis`, from `first` on.
static Value buildSlice(ImplicitLocOpBuilder &b, Value x, int64_t axis,
                        int64_t first, int64_t count) {
  auto type = cast<RankedTensorType>(x.getType());
  SmallVector<int64_t> shape(type.getShape()), offsets(type.getRank(), 0),
      strides(type.getRank(), 1);
  shape[axis] = count;
  offsets[axis] = first;
  if (type.clone(shape) == type)
    return x;
  return SliceOp::create(b, type.clone(shape), x, offsets, strides);
}

static Value buildSum(ImplicitLocOpBuilder &b, Value x, int64_t axis,
                      bool byHalves) {
  auto type = cast<RankedTensorType>(x.getType());
  if (type.getDimSize(axis) == 1)
    return x;
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = 1;
  return SumInOrderOp::create(b, type.clone(shape), x, axis, byHalves);
}

Value mlir::binade::buildSumsInOrder(ImplicitLocOpBuilder &b, Value x,
                                     bool isColumn) {
  constexpr int64_t kRow = 1, kColumn = 3;
  x = buildSum(b, x, kColumn, /*byHalves=*/false);
  return buildSum(b, x, kRow, /*byHalves=*/!isColumn);
}

BlockScales mlir::binade::chooseBetterScales(ImplicitLocOpBuilder &b,
                                             Value amax, Value largest, Value x,
                                             QuantizedAttr format,
                                             QuantizedAttr arranged,
                                             function_ref<Value(Value)> addUp) {
  auto type = cast<RankedTensorType>(amax.getType());
  Value tensorFactor = chooseTensorFactor(b, largest, format);
  BlockScales better;
  better.tensorScale =
      DivOp::create(b, buildConstant(b, largest, 1.0), tensorFactor);
  Value unit =
      DivOp::create(b, amax, buildConstant(b, amax, format.getLargest()));
  unit = MulOp::create(b, unit, broadcastTo(b, tensorFactor, amax));
  Value scale, error;
  for (double stretch : QuantizedAttr::kStretches) {
    BlockScales tried;
    Value exact = MulOp::create(b, unit, buildConstant(b, unit, stretch));
    tried.scale = CastOp::create(b, type.clone(format.getScale()), exact,
                                 /*saturate=*/true);
    Value wide = buildCast(b, tried.scale, b.getF32Type());
    tried.factor = invertScale(
        b, MulOp::create(b, wide, broadcastTo(b, better.tensorScale, wide)));
    auto codes = EncodeOp::create(
        b, cast<RankedTensorType>(x.getType()).clone(arranged.getCodeType()), x,
        tried.factor, ValueRange(), arranged, /*saturate=*/true);
    Value number = DequantizeOp::create(
        b, x.getType(), ValueRange{codes, tried.scale}, arranged);
    number = MulOp::create(b, number, broadcastTo(b, largest, number));
    number = DivOp::create(b, number,
                           buildConstant(b, number, format.getTensorPeak()));
    Value difference = SubOp::create(b, number, x);
    Value tolerated = addUp(MulOp::create(b, difference, difference));
    if (!error) {
      std::tie(scale, better.factor, error) = {wide, tried.factor, tolerated};
      continue;
    }
    Value isBetter = CompareOp::create(b, tolerated, error, Comparison::Less);
    scale = SelectOp::create(b, isBetter, wide, scale);
    better.factor = SelectOp::create(b, isBetter, tried.factor, better.factor);
  }
  better.scale = buildCast(b, scale, format.getScale());
  return better;
}

//===----------------------------------------------------------------------===//
// Corrected scales
//===----------------------------------------------------------------------===//

/// Returns the sums of `x`, which has an element for each scale, over the
/// scales with the same correction.
static Value addGroups(ImplicitLocOpBuilder &b, Value x,
                       const CorrectedBlocks &blocks) {
  x = buildReshape(b, x, blocks.getFlat());
  auto type = cast<RankedTensorType>(x.getType());
  if (blocks.getPadded() != blocks.getFlat())
    x = PadOp::create(b, type.clone(blocks.getPadded()), x,
                      ArrayRef<int64_t>{0, 0, 0}, ArrayRef<int64_t>{1, 1, 1});
  return buildSum(b, buildReshape(b, x, blocks.getArranged()),
                  CorrectedBlocks::kBlockAxis, /*byHalves=*/true);
}

/// Reverses `addGroups`: repeats the element of a group for its scales.
static Value spreadGroups(ImplicitLocOpBuilder &b, Value x,
                          const CorrectedBlocks &blocks) {
  x = buildReshape(b, x, {blocks.outer, blocks.groups, blocks.inner});
  x = buildBroadcast(b, x, {0, 1, 3}, blocks.getArranged());
  x = buildReshape(b, x, blocks.getPadded());
  return buildSlice(b, x, 1, 0, blocks.count);
}

/// Rounds scales to E4M3 at random.
static Value roundScales(ImplicitLocOpBuilder &b, Value scale,
                         QuantizedAttr format, Value random) {
  auto type = cast<RankedTensorType>(scale.getType());
  auto stored = QuantizedAttr::get(
      b.getContext(), TypeAttr::get(format.getScale()), Granularity::PerTensor,
      /*extent=*/{}, b.getF32Type(), ScaleRule::Inverse, /*expand=*/false,
      /*stochastic=*/true, /*history=*/0, /*margin=*/0,
      /*tensorScale=*/FloatType());
  Value one = buildSplat(b, RankedTensorType::get({}, b.getF32Type()), 1.0);
  return EncodeOp::create(b, type.clone(format.getScale()), scale, one,
                          ValueRange{random}, stored, /*saturate=*/true);
}

void mlir::binade::correctScales(ImplicitLocOpBuilder &b, BlockScales &scales,
                                 Value largest, Value x, QuantizedAttr format,
                                 QuantizedAttr arranged,
                                 function_ref<Value(Value)> addUp,
                                 Value random) {
  auto scaleShape = cast<RankedTensorType>(random.getType()).getShape();
  CorrectedBlocks blocks(format, scaleShape);
  auto codes = EncodeOp::create(
      b, cast<RankedTensorType>(x.getType()).clone(arranged.getCodeType()), x,
      scales.factor, ValueRange(), arranged, /*saturate=*/true);
  Value rounded = DequantizeOp::create(
      b, x.getType(), ValueRange{codes, scales.scale}, arranged);
  Value exact = MulOp::create(
      b, x, broadcastTo(b, chooseTensorFactor(b, largest, format), x));
  Value wanted = addGroups(b, addUp(MulOp::create(b, exact, exact)), blocks),
        found = addGroups(b, addUp(MulOp::create(b, exact, rounded)), blocks);
  Value quotient = DivOp::create(b, wanted, found);
  Value isFinite =
      CompareOp::create(b, quotient, buildConstant(b, quotient, kMaxFloat),
                        Comparison::LessEqual);
  Value correction =
      SelectOp::create(b, isFinite, quotient, buildConstant(b, quotient, 1.0));
  correction = buildReshape(b, spreadGroups(b, correction, blocks), scaleShape);
  Value wide =
      buildReshape(b, buildCast(b, scales.scale, b.getF32Type()), scaleShape);
  scales.scale =
      roundScales(b, MulOp::create(b, wide, correction), format, random);
}
