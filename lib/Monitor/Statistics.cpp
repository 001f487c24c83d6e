//===- Statistics.cpp - All statistics and kinds of values ----------------===//
//
// The only definition of what exists: `binade list stats` prints it, and the
// documentation refers to it. Statistics are built from ops that kernels
// support anyway, so that they can be fused into the kernel of the value's
// producer.
//
//===----------------------------------------------------------------------===//

#include "QuantizationNoise.h"
#include "binade/IR/Formats.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

static const WatchedKindInfo kKinds[] = {
    {WatchedKind::Weight, "weight", "parameters, as the step begins"},
    {WatchedKind::NarrowWeight, "narrow_weight",
     "16-bit parameters that are rounded to nearest and have no master "
     "weights, "
     "remainder or compensation; * leaves them out",
     /*isOnlyNamed=*/true},
    {WatchedKind::Gradient, "gradient",
     "gradients of parameters, without the loss scale, before clipping"},
    {WatchedKind::ScaledGradient, "scaled_gradient",
     "the same as stored, with the loss scale; if there is none, not in *"},
    {WatchedKind::Loss, "loss", "the loss"},
    {WatchedKind::Input, "input",
     "the operand, other than parameters, of nodes with a parameter"},
    {WatchedKind::Output, "output",
     "outputs of nodes, except of nodes that only move elements"},
    {WatchedKind::OutputGradient, "output_gradient",
     "gradients of the outputs of nodes, without the loss scale"},
    {WatchedKind::ScaledOutputGradient, "scaled_output_gradient",
     "the same as stored, with the loss scale and that of the layer; if "
     "there is none, not in *"},
    {WatchedKind::Saved, "saved",
     "values saved for the backward pass, before they are rounded for that"},
    {WatchedKind::State, "state",
     "optimizer states, as the step begins: m, v (dequantized), scales, "
     "expansion k"},
    {WatchedKind::Scale, "scale", "scales of the loss and of tensors"},
    {WatchedKind::History, "history",
     "recorded magnitudes of delayed scales, which alarms read between steps; "
     "not for --stats",
     /*isOnlyNamed=*/true},
};

ArrayRef<WatchedKindInfo> mlir::binade::getWatchedKinds() { return kKinds; }

StringRef mlir::binade::getName(WatchedKind kind) {
  return kKinds[static_cast<size_t>(kind)].name;
}

//===----------------------------------------------------------------------===//
// Bounds of formats
//===----------------------------------------------------------------------===//

/// Returns the largest f32 magnitude that rounds to 0 in `format`: half of the
/// smallest value, ties to even. Returns 0 if only 0 does.
static double getUnderflowBound(FloatType format) {
  APFloat smallest = APFloat::getSmallest(format.getFloatSemantics());
  double half = smallest.convertToDouble() / 2;
  return static_cast<double>(static_cast<float>(half)) == half ? half : 0.0;
}

/// Returns the smallest f32 magnitude that rounds to more than the largest
/// value of `format`.
static double getOverflowBound(FloatType format) {
  const llvm::fltSemantics &semantics = format.getFloatSemantics();
  if (format.getWidth() >= 32)
    return INFINITY;
  APFloat below = APFloat::getLargest(semantics);
  below.next(/*nextDown=*/true);
  double largest = getLargest(format);
  double middle = largest + (largest - below.convertToDouble()) / 2;
  APFloat tie(middle);
  bool losesInfo;
  (void)tie.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
  bool isHeld = tie.isFinite() && tie.convertToDouble() == largest;
  auto bound = static_cast<float>(middle);
  return isHeld ? std::nextafterf(bound, INFINITY) : bound;
}

//===----------------------------------------------------------------------===//
// Statistics
//===----------------------------------------------------------------------===//

static Value buildMean(ValueStatistics &s) {
  return s.divide(s.sum(s.elements()), s.getCount());
}

static Value buildDeviation(ValueStatistics &s) {
  ImplicitLocOpBuilder &b = s.builder();
  Value x = buildCast(b, s.elements(), b.getF64Type());
  auto shape = cast<RankedTensorType>(x.getType()).getShape();
  Value mean = buildBroadcast(b, buildMean(s), {}, shape);
  Value squares = s.sumOfSquares(SubOp::create(b, x, mean));
  return SqrtOp::create(b, s.divide(squares, s.getCount() - 1));
}

static Value buildUnderflow(ValueStatistics &s, FloatType format) {
  ImplicitLocOpBuilder &b = s.builder();
  Value zeros = s.countTrue(s.compare(s.elements(), Comparison::Equal, 0.0));
  Value small =
      s.countTrue(s.compare(s.magnitudes(s.elements()), Comparison::LessEqual,
                            getUnderflowBound(format)));
  return s.divide(SubOp::create(b, small, zeros), s.countNonzero());
}

/// Returns the fraction of magnitudes of at least `bound`.
static Value buildShare(ValueStatistics &s, double bound) {
  return s.divide(s.countTrue(s.compare(s.magnitudes(s.elements()),
                                        Comparison::GreaterEqual, bound)),
                  s.getCount());
}

static Value buildNoise(ValueStatistics &s) {
  Value rounded = s.rounded();
  if (!rounded)
    return {};
  ImplicitLocOpBuilder &b = s.builder();
  Value exact = s.exact();
  Value ratio = s.divide(s.sumOfSquares(exact),
                         s.sumOfSquares(SubOp::create(b, exact, rounded)));
  // The factor from natural logarithms to decibels.
  return MulOp::create(b, LogOp::create(b, ratio), s.number(10 / M_LN10));
}

/// Returns the updated weight; null for other values.
static Value getUpdated(ValueStatistics &s) {
  const auto &change = s.getWatched().change;
  return change ? s.asElements(change->after) : Value();
}

/// Returns `value`, or NaN if the step is skipped and updates nothing.
static Value unlessSkipped(ValueStatistics &s, Value value) {
  Value skip = s.getWatched().change->skip;
  return skip ? SelectOp::create(s.builder(), skip, s.number(NAN), value)
                    .getResult()
              : value;
}

/// Returns where an update does not change a weight. The master weight,
/// remainder or compensation of a 16-bit weight must also be unchanged, because
/// it takes up what 16 bits lose.
static Value buildIsSame(ValueStatistics &s) {
  ImplicitLocOpBuilder &b = s.builder();
  const WeightChange &change = *s.getWatched().change;
  Value isSame =
      CompareOp::create(b, getUpdated(s), s.exact(), Comparison::Equal);
  if (!change.companion)
    return isSame;
  Value before = s.asElements(change.companion);
  Value after = s.asElements(change.companionAfter);
  return AndOp::create(b, isSame,
                       CompareOp::create(b, after, before, Comparison::Equal));
}

static Value buildLost(ValueStatistics &s) {
  if (!getUpdated(s))
    return {};
  ImplicitLocOpBuilder &b = s.builder();
  Value gradient = s.asElements(s.getWatched().change->gradient);
  Value isMeant = NotOp::create(b, s.compare(gradient, Comparison::Equal, 0.0));
  Value isSame = buildIsSame(s);
  return unlessSkipped(s,
                       s.divide(s.countTrue(AndOp::create(b, isMeant, isSame)),
                                s.countTrue(isMeant)));
}

static Value buildUpdateRatio(ValueStatistics &s) {
  Value updated = getUpdated(s);
  if (!updated)
    return {};
  ImplicitLocOpBuilder &b = s.builder();
  Value change = s.sumOfSquares(SubOp::create(b, updated, s.exact()));
  Value ratio = SqrtOp::create(b, s.divide(change, s.sumOfSquares(s.exact())));
  return unlessSkipped(s, ratio);
}

/// The builder of statistics that the runtime computes.
static Value buildNothing(ValueStatistics &, FloatType) { return {}; }

static const StatisticInfo kStatistics[] = {
    {"norm", "sqrt(sum x^2)", "", "Euclidean norm", false,
     [](ValueStatistics &s, FloatType) -> Value {
       return SqrtOp::create(s.builder(), s.sumOfSquares(s.elements()));
     }},
    {"min", "min x", "", "smallest element; NaN if any is NaN", false,
     [](ValueStatistics &s, FloatType) -> Value {
       Value negative = NegOp::create(s.builder(), s.elements());
       return NegOp::create(s.builder(), s.largest(negative));
     }},
    {"max", "max x", "", "largest element; NaN if any is NaN", false,
     [](ValueStatistics &s, FloatType) { return s.largest(s.elements()); }},
    {"absmax", "max |x|", "", "largest magnitude; NaN if any is NaN", false,
     [](ValueStatistics &s, FloatType) {
       return s.largest(s.magnitudes(s.elements()));
     }},
    {"absmean", "sum |x| / n", "", "mean magnitude", false,
     [](ValueStatistics &s, FloatType) {
       // The other sums also read the elements as f64.
       Value x = buildCast(s.builder(), s.elements(), s.builder().getF64Type());
       return s.divide(s.sum(s.magnitudes(x)), s.getCount());
     }},
    {"mean", "sum x / n", "", "mean", false,
     [](ValueStatistics &s, FloatType) { return buildMean(s); }},
    {"std", "sqrt(sum (x - mean)^2 / (n - 1))", "",
     "standard deviation, unbiased, in two passes; none for one element", false,
     [](ValueStatistics &s, FloatType) { return buildDeviation(s); }},
    {"zeros", "#{x = 0} / n", "share", "elements that are 0", false,
     [](ValueStatistics &s, FloatType) {
       return s.divide(
           s.countTrue(s.compare(s.elements(), Comparison::Equal, 0.0)),
           s.getCount());
     }},
    {"nonfinite", "#{x infinite or NaN} / n", "share",
     "elements that are infinite or NaN", false,
     [](ValueStatistics &s, FloatType) -> Value {
       Value finite = s.countTrue(
           s.compare(s.magnitudes(s.elements()), Comparison::Less, INFINITY));
       return s.divide(
           SubOp::create(s.builder(), s.number(s.getCount()), finite),
           s.getCount());
     }},
    {"underflow", "#{x != 0, round(x) = 0} / #{x != 0}", "share",
     "nonzero elements that round to 0 in the format", true, buildUnderflow},
    {"overflow", "#{round(|x|) > largest} / n", "share",
     "elements beyond the largest value of the format", true,
     [](ValueStatistics &s, FloatType format) {
       return buildShare(s, getOverflowBound(format));
     }},
    {"saturated", "#{|x| >= largest} / n", "share",
     "elements at or beyond the largest value of the format", true,
     [](ValueStatistics &s, FloatType format) {
       return buildShare(s, getLargest(format));
     }},
    {"exponents", "", "elements",
     "histogram of floor(log2 |x|); zeros and f32 subnormals count as -127, "
     "values that are not finite as 128",
     false,
     [](ValueStatistics &s, FloatType) -> Value {
       return StatisticsOp::create(s.builder(), Statistic::Exponents,
                                   s.elements())
           .getValues()
           .front();
     }},
    {"sqnr", "10 log10(sum x^2 / sum (x - round(x))^2)", "dB",
     "signal to noise of the first cast to a narrower format, or quantization, "
     "that reads the value",
     false, [](ValueStatistics &s, FloatType) { return buildNoise(s); }},
    {"noise", "sqrt((e b + a f + e f) / k)", "",
     "estimated norm of the error that the quantization of operands causes in "
     "the result of a matmul over k elements: a and b are the sums of squares "
     "of the operands, e and f those of their rounding errors",
     false,
     [](ValueStatistics &s, FloatType) { return buildQuantizationNoise(s); }},
    {"lost", "#{g != 0, x' = x} / #{g != 0}", "share",
     "weights with a nonzero gradient g that their update does not change, "
     "nor their master weight, remainder or compensation",
     false, [](ValueStatistics &s, FloatType) { return buildLost(s); },
     /*isOfUpdate=*/true},
    {"update_ratio", "sqrt(sum (x' - x)^2 / sum x^2)", "",
     "norm of a weight's update, relative to the norm of the weight", false,
     [](ValueStatistics &s, FloatType) { return buildUpdateRatio(s); },
     /*isOfUpdate=*/true},
    {"excess", "log2(largest / newest)", "binades",
     "of a history: how far its largest magnitude is above its newest", false,
     buildNothing},
    {"room", "log2(largest / smallest normal)", "binades",
     "of a history: the range of its format", false, buildNothing},
    {"source", "", "step", "of a history: where its largest magnitude is from",
     false, buildNothing},
};

ArrayRef<StatisticInfo> mlir::binade::getStatistics() { return kStatistics; }
