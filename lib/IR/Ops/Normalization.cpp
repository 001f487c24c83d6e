//===- Normalization.cpp - Layer and batch normalization ------------------===//

#include "Normalizer.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Normalization.cpp.inc"

//===----------------------------------------------------------------------===//
// Layer normalization
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  if (failed(expectRows(location, adaptor.getX())))
    return failure();
  RankedTensorType type = getTensor(adaptor.getX());
  for (Value parameter : {adaptor.getScale(), adaptor.getBias()})
    if (parameter &&
        getTensor(parameter).getShape() != type.getShape().take_back(1))
      return emitOptionalError(location, "expected ", type.getShape().back(),
                               " parameters, one per entry of the last axis, "
                               "got ",
                               parameter.getType());
  return inferLike(adaptor.getX(), type.getShape().drop_back(), 2, types);
}

FormatRole LayerNormOp::getOperandFormat(unsigned index) {
  return index == 0 ? FormatRole::Chosen : FormatRole::Wide;
}

bool LayerNormOp::isFactor(unsigned index) { return index == 1; }

std::optional<TensorRole> LayerNormOp::getOperandRole(unsigned index) {
  if (index > 0)
    return TensorRole::Norm;
  return std::nullopt;
}

FormatRole LayerNormOp::getResultFormat(unsigned index) {
  return index == 0 ? FormatRole::Chosen : FormatRole::Wide;
}

SmallVector<Value> LayerNormOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                             ArrayRef<Value> cotangents) {
  Value dy = cotangents.front();
  Value dx =
      LayerNormGradOp::create(b, dy, getX(), getScale(), getMean(), getRstd());
  auto parameters =
      LayerNormParamGradOp::create(b, dy, getX(), getMean(), getRstd());
  SmallVector<Value> gradients = {dx, parameters.getDscale()};
  if (getBias())
    gradients.push_back(parameters.getDbias());
  return gradients;
}

FailureOr<SmallVector<Value>> LayerNormOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overRows(b, getX());
  Value x = n.wide(getX());
  Value mean = n.mean(x);
  Value centred = n.sub(x, n.broadcast(mean));
  Value rstd = n.rstd(n.mean(n.mul(centred, centred)), getEpsilon());
  Value y =
      n.mul(n.mul(centred, n.broadcast(rstd)), n.broadcastLast(getScale()));
  if (getBias())
    y = n.add(y, n.broadcastLast(getBias()));
  return SmallVector<Value>{n.as(y, getY()), mean, rstd};
}

/// Checks the operands of both gradients of layer_norm; they have one statistic
/// per row.
template <typename Adaptor>
static LogicalResult verifyLayerNormGradient(std::optional<Location> location,
                                             Adaptor adaptor) {
  if (failed(expectRows(location, adaptor.getX())))
    return failure();
  ArrayRef<int64_t> shape = getTensor(adaptor.getX()).getShape();
  ArrayRef<int64_t> rows = shape.drop_back();
  return success(
      succeeded(expectShape(location, "gradient",
                            adaptor.getGradient().getType(), shape)) &&
      succeeded(
          expectShape(location, "mean", adaptor.getMean().getType(), rows)) &&
      succeeded(
          expectShape(location, "rstd", adaptor.getRstd().getType(), rows)));
}

LogicalResult LayerNormGradOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  if (failed(verifyLayerNormGradient(location, adaptor)) ||
      failed(expectShape(location, "scale", adaptor.getScale().getType(),
                         getTensor(adaptor.getX()).getShape().take_back(1))))
    return failure();
  return inferLike(adaptor.getGradient(), {}, 0, types);
}

FormatRole LayerNormGradOp::getOperandFormat(unsigned index) {
  return index <= 1 ? FormatRole::Chosen : FormatRole::Wide;
}

std::optional<TensorRole> LayerNormGradOp::getOperandRole(unsigned index) {
  if (index == 2)
    return TensorRole::Norm;
  return std::nullopt;
}

FailureOr<SmallVector<Value>>
LayerNormGradOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overRows(b, getX());
  Value rstd = n.broadcast(getRstd());
  Value normal = n.mul(n.sub(n.wide(getX()), n.broadcast(getMean())), rstd);
  Value g = n.mul(n.wide(getGradient()), n.broadcastLast(getScale()));
  Value meanG = n.broadcast(n.mean(g));
  Value meanGN = n.broadcast(n.mean(n.mul(g, normal)));
  Value dx = n.mul(rstd, n.sub(n.sub(g, meanG), n.mul(normal, meanGN)));
  return SmallVector<Value>{n.as(dx, getDx())};
}

LogicalResult LayerNormParamGradOp::inferReturnTypes(
    MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  if (failed(verifyLayerNormGradient(location, adaptor)))
    return failure();
  auto type =
      RankedTensorType::get(getTensor(adaptor.getX()).getShape().take_back(1),
                            Float32Type::get(context));
  types.append({type, type});
  return success();
}

FormatRole LayerNormParamGradOp::getOperandFormat(unsigned index) {
  return index <= 1 ? FormatRole::Chosen : FormatRole::Wide;
}

FormatRole LayerNormParamGradOp::getResultFormat(unsigned) {
  return FormatRole::Wide;
}

FailureOr<SmallVector<Value>>
LayerNormParamGradOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer rows = Normalizer::overRows(b, getX());
  Value dy = rows.wide(getGradient());
  Value normal =
      rows.mul(rows.sub(rows.wide(getX()), rows.broadcast(getMean())),
               rows.broadcast(getRstd()));
  Normalizer n = Normalizer::overAllBut(b, getX(), rows.reduced.front());
  return SmallVector<Value>{n.sum(n.mul(dy, normal)), n.sum(dy)};
}

//===----------------------------------------------------------------------===//
// Batch normalization
//===----------------------------------------------------------------------===//

/// Infers two f32 vectors with one element per channel of `x`.
static LogicalResult inferChannels(Value x, int64_t axis,
                                   std::optional<Location> location,
                                   SmallVectorImpl<Type> &types) {
  RankedTensorType type = getTensor(x);
  if (axis < 0 || axis >= type.getRank())
    return emitOptionalError(location, "axis ", axis, " is not one of ", type);
  types.append(2, RankedTensorType::get({type.getDimSize(axis)},
                                        Float32Type::get(x.getContext())));
  return success();
}

LogicalResult BatchNormStatisticsOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  return inferChannels(adaptor.getX(), adaptor.getAxis(), location, types);
}

FormatRole BatchNormStatisticsOp::getResultFormat(unsigned) {
  return FormatRole::Wide;
}

FailureOr<SmallVector<Value>>
BatchNormStatisticsOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overAllBut(b, getX(), getAxis());
  Value x = n.wide(getX());
  Value mean = n.mean(x);
  Value centred = n.sub(x, n.broadcast(mean));
  return SmallVector<Value>{mean, n.mean(n.mul(centred, centred))};
}

/// Likewise; `parameters` must have that shape, too.
static LogicalResult inferChannels(Value x, int64_t axis, ValueRange parameters,
                                   std::optional<Location> location,
                                   SmallVectorImpl<Type> &types) {
  if (failed(inferChannels(x, axis, location, types)))
    return failure();
  for (Value parameter : parameters)
    if (!haveSameShapes(parameter.getType(), types.front()))
      return emitOptionalError(location, "expected one number per channel, ",
                               types.front(), ", got ", parameter.getType());
  return success();
}

LogicalResult BatchNormOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  SmallVector<Type> channels;
  if (failed(inferChannels(adaptor.getX(), adaptor.getAxis(),
                           {adaptor.getScale(), adaptor.getBias(),
                            adaptor.getMean(), adaptor.getVariance()},
                           location, channels)))
    return failure();
  return inferLike(adaptor.getX(), {}, 0, types);
}

FormatRole BatchNormOp::getOperandFormat(unsigned index) {
  return index == 0 ? FormatRole::Chosen : FormatRole::Wide;
}

bool BatchNormOp::isFactor(unsigned index) { return index == 1; }

std::optional<TensorRole> BatchNormOp::getOperandRole(unsigned index) {
  if (index > 0)
    return TensorRole::Norm;
  return std::nullopt;
}

SmallVector<Value>
BatchNormOp::buildEvaluation(ImplicitLocOpBuilder &b,
                             function_ref<Value(Value)> getRunning) {
  if (!getTraining())
    return {getY()};
  Value mean = getRunning(getMean()), variance = getRunning(getVariance());
  if (!mean || !variance)
    return {getY()};
  return {BatchNormOp::create(b, getY().getType(), getX(), getScale(),
                              getBias(), mean, variance, getEpsilonAttr(),
                              getAxisAttr(), /*training=*/UnitAttr(),
                              getPrecisionAttr())};
}

SmallVector<Value> BatchNormOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                             ArrayRef<Value> cotangents) {
  Value dy = cotangents.front();
  auto parameters =
      BatchNormParamGradOp::create(b, dy, getX(), getMean(), getVariance(),
                                   getEpsilon(), getAxis(), PrecisionAttr());
  Value dx = BatchNormGradOp::create(b, dy, getX(), getScale(), getMean(),
                                     getVariance(), parameters.getDscale(),
                                     parameters.getDbias(), getEpsilon(),
                                     getAxis(), getTraining());
  return {dx, parameters.getDscale(), parameters.getDbias(), Value(), Value()};
}

FailureOr<SmallVector<Value>> BatchNormOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overAllBut(b, getX(), getAxis());
  Value rstd = n.rstd(getVariance(), getEpsilon());
  Value factor = n.mul(rstd, n.wide(getScale()));
  Value centred = n.sub(n.wide(getX()), n.broadcast(getMean()));
  Value y = n.add(n.mul(centred, n.broadcast(factor)),
                  n.broadcast(n.wide(getBias())));
  return SmallVector<Value>{n.as(y, getY())};
}

LogicalResult BatchNormParamGradOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  if (failed(expectShape(location, "gradient", adaptor.getGradient().getType(),
                         getTensor(adaptor.getX()).getShape())))
    return failure();
  return inferChannels(adaptor.getX(), adaptor.getAxis(),
                       {adaptor.getMean(), adaptor.getVariance()}, location,
                       types);
}

FormatRole BatchNormParamGradOp::getOperandFormat(unsigned index) {
  return index <= 1 ? FormatRole::Chosen : FormatRole::Wide;
}

FormatRole BatchNormParamGradOp::getResultFormat(unsigned) {
  return FormatRole::Wide;
}

FailureOr<SmallVector<Value>>
BatchNormParamGradOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overAllBut(b, getX(), getAxis());
  Value dy = n.wide(getGradient());
  Value centred = n.sub(n.wide(getX()), n.broadcast(getMean()));
  Value dscale =
      n.mul(n.sum(n.mul(dy, centred)), n.rstd(getVariance(), getEpsilon()));
  return SmallVector<Value>{dscale, n.sum(dy)};
}

LogicalResult BatchNormGradOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  SmallVector<Type> channels;
  if (failed(expectShape(location, "gradient", adaptor.getGradient().getType(),
                         getTensor(adaptor.getX()).getShape())) ||
      failed(inferChannels(adaptor.getX(), adaptor.getAxis(),
                           {adaptor.getScale(), adaptor.getMean(),
                            adaptor.getVariance(), adaptor.getDscale(),
                            adaptor.getDbias()},
                           location, channels)))
    return failure();
  return inferLike(adaptor.getGradient(), {}, 0, types);
}

FormatRole BatchNormGradOp::getOperandFormat(unsigned index) {
  return index <= 1 ? FormatRole::Chosen : FormatRole::Wide;
}

std::optional<TensorRole> BatchNormGradOp::getOperandRole(unsigned index) {
  if (index == 2)
    return TensorRole::Norm;
  return std::nullopt;
}

FailureOr<SmallVector<Value>>
BatchNormGradOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overAllBut(b, getX(), getAxis());
  Value rstd = n.rstd(getVariance(), getEpsilon());
  Value factor = n.broadcast(n.mul(rstd, n.wide(getScale())));
  Value dx = n.wide(getGradient());
  if (getTraining()) {
    // The statistics depend on x, too.
    Value inverseCount =
        n.number(getDbias(), static_cast<double>(n.type.getDimSize(getAxis())) /
                                 n.type.getNumElements());
    Value centred = n.sub(n.wide(getX()), n.broadcast(getMean()));
    Value slope = n.mul(n.mul(getDscale(), inverseCount), rstd);
    Value throughStatistics =
        n.add(n.broadcast(n.mul(getDbias(), inverseCount)),
              n.mul(centred, n.broadcast(slope)));
    dx = n.sub(dx, throughStatistics);
  }
  return SmallVector<Value>{n.as(n.mul(factor, dx), getDx())};
}

/// The sums over no element are 0, whatever the statistics are.
FailureOr<SmallVector<Value>>
BatchNormParamGradOp::buildWithoutElements(ImplicitLocOpBuilder &b) {
  return buildZeros(b, getResultTypes());
}
