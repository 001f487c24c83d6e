//===- Statistics.cpp - All statistics, and all kinds of values -----------===//
//
// The one place that says what there is: `binade list stats` prints it, and the
// documentation refers to it. A statistic is built of ops that kernels compute
// anyway, so that it becomes a part of the kernel that makes the value.
//
//===----------------------------------------------------------------------===//

#include "ValueStatistics.h"
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
     "what parameters are updated by, without the loss scale, before clipping"},
    {WatchedKind::ScaledGradient, "scaled_gradient",
     "the same as it is stored, with the loss scale"},
    {WatchedKind::Loss, "loss", "the loss"},
    {WatchedKind::Input, "input", "what nodes with a parameter compute with"},
    {WatchedKind::Output, "output",
     "what nodes of the model compute; none where elements only move"},
    {WatchedKind::OutputGradient, "output_gradient",
     "gradients of the outputs of nodes, without the loss scale"},
    {WatchedKind::ScaledOutputGradient, "scaled_output_gradient",
     "the same as they are stored, with the loss scale, and that of the layer"},
    {WatchedKind::Saved, "saved",
     "what waits for the backward part, before it is rounded for that"},
    {WatchedKind::State, "state",
     "states of the optimizer, as the step begins: m, v (of codes what they "
     "stand for), scales, expansion k"},
    {WatchedKind::Scale, "scale", "scales of the loss and of tensors"},
    {WatchedKind::History, "history",
     "magnitudes that delayed scales follow from, which alarms read between "
     "steps; --stats has none",
     /*isOnlyNamed=*/true},
};

ArrayRef<WatchedKindInfo> mlir::binade::getWatchedKinds() { return kKinds; }

StringRef mlir::binade::getName(WatchedKind kind) {
  return kKinds[static_cast<size_t>(kind)].name;
}

//===----------------------------------------------------------------------===//
// Bounds of formats
//===----------------------------------------------------------------------===//

/// The largest f32 magnitude that rounds to 0 in `format`: half of the smallest
/// number, ties to even. 0 where there is none but 0.
static double getUnderflowBound(FloatType format) {
  APFloat smallest = APFloat::getSmallest(format.getFloatSemantics());
  double half = smallest.convertToDouble() / 2;
  return static_cast<double>(static_cast<float>(half)) == half ? half : 0.0;
}

/// The smallest f32 magnitude that rounds beyond the largest number of
/// `format`.
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

/// The share of magnitudes of at least `bound`.
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
  // Decibels: the factor of natural logarithms.
  return MulOp::create(b, LogOp::create(b, ratio), s.number(10 / M_LN10));
}

/// What the update makes of a weight; null for other values.
static Value getUpdated(ValueStatistics &s) {
  OptimizerUpdateOp update = s.getWatched().update;
  return update ? s.asElements(update.getNewParameter()) : Value();
}

/// `value`, or NaN where the step is skipped and updates nothing.
static Value unlessSkipped(ValueStatistics &s, Value value) {
  OptimizerUpdateOp update = s.getWatched().update;
  Value skip = update.getSkip();
  return skip ? SelectOp::create(s.builder(), skip, s.number(NAN), value)
                    .getResult()
              : value;
}

/// Where an update leaves a weight as it was. What is kept beside a weight of
/// 16 bits takes up what these do not, so that both have to be.
static Value buildIsSame(ValueStatistics &s) {
  ImplicitLocOpBuilder &b = s.builder();
  OptimizerUpdateOp update = s.getWatched().update;
  Value isSame =
      CompareOp::create(b, getUpdated(s), s.exact(), Comparison::Equal);
  Value beside = update.getBeside();
  if (!beside)
    return isSame;
  Value after = s.asElements(update.getNewStates().back());
  return AndOp::create(
      b, isSame,
      CompareOp::create(b, after, s.asElements(beside), Comparison::Equal));
}

static Value buildLost(ValueStatistics &s) {
  if (!getUpdated(s))
    return {};
  ImplicitLocOpBuilder &b = s.builder();
  OptimizerUpdateOp update = s.getWatched().update;
  Value gradient = s.asElements(update.getGradient());
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

/// For statistics that the runtime computes.
static Value buildNothing(ValueStatistics &, FloatType) { return {}; }

static const StatisticInfo kStatistics[] = {
    {"norm", "sqrt(sum x^2)", "", "Euclidean norm", false,
     [](ValueStatistics &s, FloatType) -> Value {
       return SqrtOp::create(s.builder(), s.sumOfSquares(s.elements()));
     }},
    {"min", "min x", "", "smallest element; NaN where one is", false,
     [](ValueStatistics &s, FloatType) -> Value {
       Value negative = NegOp::create(s.builder(), s.elements());
       return NegOp::create(s.builder(), s.largest(negative));
     }},
    {"max", "max x", "", "largest element; NaN where one is", false,
     [](ValueStatistics &s, FloatType) { return s.largest(s.elements()); }},
    {"absmax", "max |x|", "", "largest magnitude; NaN where one is", false,
     [](ValueStatistics &s, FloatType) {
       return s.largest(s.magnitudes(s.elements()));
     }},
    {"absmean", "sum |x| / n", "", "mean magnitude", false,
     [](ValueStatistics &s, FloatType) {
       // The other sums have the elements as f64 too.
       Value x = buildCast(s.builder(), s.elements(), s.builder().getF64Type());
       return s.divide(s.sum(s.magnitudes(x)), s.getCount());
     }},
    {"mean", "sum x / n", "", "mean", false,
     [](ValueStatistics &s, FloatType) { return buildMean(s); }},
    {"std", "sqrt(sum (x - mean)^2 / (n - 1))", "",
     "standard deviation, unbiased, in two passes; none of one element", false,
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
     "elements that the format makes 0 of those that are not", true,
     buildUnderflow},
    {"overflow", "#{round(|x|) > largest} / n", "share",
     "elements beyond what the format holds", true,
     [](ValueStatistics &s, FloatType format) {
       return buildShare(s, getOverflowBound(format));
     }},
    {"saturated", "#{|x| >= largest} / n", "share",
     "elements at the end of the format, or beyond", true,
     [](ValueStatistics &s, FloatType format) {
       return buildShare(s, getLargest(format));
     }},
    {"exponents", "", "elements",
     "histogram of floor(log2 |x|); what is below f32's normal numbers, 0 too, "
     "counts as -127, and what is not finite as 128",
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
    {"lost", "#{g != 0, x' = x} / #{g != 0}", "share",
     "weights, with what a master keeps of them, that their update leaves as "
     "they were although their gradient g is not 0",
     false, [](ValueStatistics &s, FloatType) { return buildLost(s); },
     /*isOfUpdate=*/true},
    {"update_ratio", "sqrt(sum (x' - x)^2 / sum x^2)", "",
     "norm of a weight's update, in norms of the weight", false,
     [](ValueStatistics &s, FloatType) { return buildUpdateRatio(s); },
     /*isOfUpdate=*/true},
    {"excess", "log2(largest / newest)", "binades",
     "of a history: how far its largest magnitude is above its newest", false,
     buildNothing},
    {"room", "log2(largest / least normal number)", "binades",
     "of a history: the range of its format", false, buildNothing},
    {"source", "", "step", "of a history: where its largest magnitude is from",
     false, buildNothing},
};

ArrayRef<StatisticInfo> mlir::binade::getStatistics() { return kStatistics; }
