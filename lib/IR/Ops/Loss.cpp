//===- Loss.cpp - Losses --------------------------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Labels.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Loss.cpp.inc"

bool CrossEntropyOp::ignoresMasked() { return true; }

Schedule CrossEntropyOp::getSchedule() { return Schedule::RowReduction; }
Schedule CrossEntropyGradOp::getSchedule() { return Schedule::Elementwise; }
Schedule LabelWeightOp::getSchedule() { return Schedule::FullReduction; }

/// Returns the label that does not count; none if every label does.
static std::optional<int64_t> getIgnored(int64_t ignoreIndex) {
  if (ignoreIndex == kIgnoreNothing)
    return std::nullopt;
  return ignoreIndex;
}

static IndexRange getClasses(Value logits, int64_t ignoreIndex) {
  return {0, cast<RankedTensorType>(logits.getType()).getDimSize(1),
          getIgnored(ignoreIndex)};
}

std::optional<IndexRange> CrossEntropyOp::getIndexRange(unsigned index) {
  if (index != 1)
    return std::nullopt;
  return getClasses(getLogits(), getIgnoreIndex());
}

std::optional<IndexRange> CrossEntropyGradOp::getIndexRange(unsigned index) {
  if (index != 2)
    return std::nullopt;
  return getClasses(getLogits(), getIgnoreIndex());
}

/// Losses of different rows are independent.
static Rows cutAll(Operation *op) {
  return {SmallVector<bool>(op->getNumOperands(), true)};
}

std::optional<Rows> CrossEntropyOp::getRows() { return cutAll(*this); }
std::optional<Rows> CrossEntropyGradOp::getRows() { return cutAll(*this); }

FormatRole CrossEntropyOp::getResultFormat(unsigned) {
  return FormatRole::Wide;
}

std::optional<TensorRole> CrossEntropyOp::getOperandRole(unsigned index) {
  if (index == 0)
    return TensorRole::Logits;
  return std::nullopt;
}

FormatRole CrossEntropyGradOp::getOperandFormat(unsigned index) {
  switch (index) {
  case 1:
    return FormatRole::Chosen;
  case 2:
    return FormatRole::Fixed;
  default:
    return FormatRole::Wide;
  }
}

std::optional<TensorRole> CrossEntropyGradOp::getOperandRole(unsigned index) {
  if (index == 1)
    return TensorRole::Logits;
  return std::nullopt;
}

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *context,
                                               std::optional<Location> location,
                                               Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  auto logits = cast<RankedTensorType>(adaptor.getLogits().getType());
  auto labels = cast<RankedTensorType>(adaptor.getLabels().getType());
  if (logits.getRank() != 2 ||
      labels.getShape() != logits.getShape().take_front()) // C1
    return emitOptionalError(
        location,
        "expected logits [rows, classes] and one label per "
        "row, got ",
        logits, " and ", labels);
  types.append(
      3, RankedTensorType::get(labels.getShape(), Float32Type::get(context)));
  return success();
}

bool CrossEntropyOp::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
  return haveSameShapes(l, r);
}

SmallVector<Value> CrossEntropyOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                                ArrayRef<Value> cotangents) {
  return {CrossEntropyGradOp::create(b, cotangents.front(), getLogits(),
                                     getLabels(), getMaximum(), getLogarithm(),
                                     getIgnoreIndex(), PrecisionAttr()),
          Value()};
}

LogicalResult CrossEntropyGradOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  auto logits = cast<RankedTensorType>(adaptor.getLogits().getType());
  if (logits.getRank() != 2)
    return emitOptionalError(location, "expected logits [rows, classes], got ",
                             logits);
  ArrayRef<int64_t> rows = logits.getShape().take_front();
  if (failed(expectShape(location, "gradient", adaptor.getGradient().getType(),
                         rows)) ||
      failed(expectShape(location, "labels", adaptor.getLabels().getType(),
                         rows)) ||
      failed(expectShape(location, "maximum", adaptor.getMaximum().getType(),
                         rows)) ||
      failed(expectShape(location, "logarithm",
                         adaptor.getLogarithm().getType(), rows)))
    return failure(); // C1
  types.push_back(logits);
  return success();
}

bool CrossEntropyGradOp::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
  return haveSameShapes(l, r);
}

LogicalResult LabelWeightOp::inferReturnTypes(MLIRContext *context,
                                              std::optional<Location> location,
                                              Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  auto labels = cast<RankedTensorType>(adaptor.getLabels().getType());
  if (labels.getRank() != 1) // C1
    return emitOptionalError(location, "expected one axis of labels, got ",
                             labels);
  types.push_back(RankedTensorType::get({}, Float32Type::get(context)));
  return success();
}

//===----------------------------------------------------------------------===//
// Decompositions
//===----------------------------------------------------------------------===//

Value mlir::binade::buildLabelCounts(ImplicitLocOpBuilder &b, Value labels,
                                     int64_t ignoreIndex) {
  if (!getIgnored(ignoreIndex))
    return buildSplat(
        b, cast<RankedTensorType>(labels.getType()).clone(b.getI1Type()), 1.0);
  Value ignored =
      buildSplat(b, labels.getType(), static_cast<double>(ignoreIndex));
  return NotOp::create(
      b, CompareOp::create(b, labels, ignored, Comparison::Equal));
}

/// Builds a tensor that says for each element [row, class] whether the class is
/// the row's label.
static Value buildHits(ImplicitLocOpBuilder &b, Value labels,
                       ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(labels.getType());
  Value classes = IotaOp::create(b, type.clone(shape), b.getI64IntegerAttr(1));
  return CompareOp::create(b, classes, buildBroadcast(b, labels, 0, shape),
                           Comparison::Equal);
}

FailureOr<SmallVector<Value>>
CrossEntropyOp::decompose(ImplicitLocOpBuilder &b) {
  Value x = buildCast(b, getLogits(), b.getF32Type());
  auto type = cast<RankedTensorType>(x.getType());
  Value maximum = ReduceMaxOp::create(b, x, 1);
  Value spread = buildBroadcast(b, maximum, 0, type.getShape());
  Value total =
      ReduceSumOp::create(b, ExpOp::create(b, SubOp::create(b, x, spread)), 1);
  Value logarithm = LogOp::create(b, total);
  std::optional<int64_t> ignored = getIgnored(getIgnoreIndex());
  Value labels = CheckIndexOp::create(b, getLabels(), 0, type.getDimSize(1),
                                      ignored ? b.getI64IntegerAttr(*ignored)
                                              : IntegerAttr());
  Value hits = buildHits(b, labels, type.getShape());
  Value picked = ReduceSumOp::create(
      b, SelectOp::create(b, hits, x, buildSplat(b, type, 0.0)), 1);
  Value below = SubOp::create(b, picked, maximum);
  Value losses =
      SelectOp::create(b, buildLabelCounts(b, labels, getIgnoreIndex()),
                       SubOp::create(b, logarithm, below),
                       buildSplat(b, logarithm.getType(), 0.0));
  return SmallVector<Value>{losses, maximum, logarithm};
}

FailureOr<SmallVector<Value>>
CrossEntropyGradOp::decompose(ImplicitLocOpBuilder &b) {
  Value x = buildCast(b, getLogits(), b.getF32Type());
  auto type = cast<RankedTensorType>(x.getType());
  auto spread = [&](Value v) {
    return buildBroadcast(b, v, 0, type.getShape());
  };
  Value below = SubOp::create(b, x, spread(getMaximum()));
  Value p = ExpOp::create(b, SubOp::create(b, below, spread(getLogarithm())));
  Value hits = buildHits(b, getLabels(), type.getShape());
  Value less = SubOp::create(b, p, buildSplat(b, type, 1.0));
  Value counts = buildLabelCounts(b, getLabels(), getIgnoreIndex());
  Value weight = SelectOp::create(b, counts, getGradient(),
                                  buildSplat(b, getGradient().getType(), 0.0));
  Value dx =
      MulOp::create(b, SelectOp::create(b, hits, less, p), spread(weight));
  Value masked =
      SelectOp::create(b, spread(counts), dx, buildSplat(b, type, 0.0));
  return SmallVector<Value>{
      buildCast(b, masked, getElementTypeOrSelf(getDlogits().getType()))};
}

FailureOr<SmallVector<Value>>
LabelWeightOp::decompose(ImplicitLocOpBuilder &b) {
  Value counts = buildLabelCounts(b, getLabels(), getIgnoreIndex());
  Value number = buildCast(b, counts, b.getF32Type());
  Value total = ReduceSumOp::create(b, number, int64_t(0));
  return SmallVector<Value>{
      DivOp::create(b, buildSplat(b, total.getType(), 1.0), total)};
}
