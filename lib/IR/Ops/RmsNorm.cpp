//===- RmsNorm.cpp - Root mean square normalization -----------------------===//

#include "Normalizer.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the shape of a vector with one element per index of the last axis of
/// `x`.
static ArrayRef<int64_t> getRow(Value x) {
  return getTensor(x).getShape().take_back(1);
}

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> location,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  Value x = adaptor.getX();
  if (failed(expectRows(location, x)) ||
      failed(expectShape(location, "scale", adaptor.getScale().getType(),
                         getRow(x))))
    return failure();
  return inferLike(x, getTensor(x).getShape().drop_back(), 1, types);
}

FormatRole RmsNormOp::getOperandFormat(unsigned index) {
  return index == 0 ? FormatRole::Chosen : FormatRole::Wide;
}

bool RmsNormOp::isFactor(unsigned index) { return index == 1; }

std::optional<TensorRole> RmsNormOp::getOperandRole(unsigned index) {
  if (index > 0)
    return TensorRole::Norm;
  return std::nullopt;
}

FormatRole RmsNormOp::getResultFormat(unsigned index) {
  return index == 0 ? FormatRole::Chosen : FormatRole::Wide;
}

SmallVector<Value> RmsNormOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                           ArrayRef<Value> cotangents) {
  Value dy = cotangents.front();
  return {RmsNormGradOp::create(b, dy, getX(), getScale(), getRstd()),
          RmsNormScaleGradOp::create(b, dy, getX(), getRstd())};
}

FailureOr<SmallVector<Value>> RmsNormOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overRows(b, getX());
  Value x = n.wide(getX());
  Value rstd = n.rstd(n.mean(n.mul(x, x)), getEpsilon());
  Value y = n.mul(n.mul(x, n.broadcast(rstd)), n.broadcastLast(getScale()));
  return SmallVector<Value>{n.as(y, getY()), rstd};
}

/// Checks the operands of both gradients.
template <typename Adaptor>
static LogicalResult verifyGradient(std::optional<Location> location,
                                    Adaptor adaptor) {
  if (failed(expectRows(location, adaptor.getX())))
    return failure();
  ArrayRef<int64_t> shape = getTensor(adaptor.getX()).getShape();
  return success(
      succeeded(expectShape(location, "gradient",
                            adaptor.getGradient().getType(), shape)) &&
      succeeded(expectShape(location, "rstd", adaptor.getRstd().getType(),
                            shape.drop_back())));
}

LogicalResult RmsNormGradOp::inferReturnTypes(MLIRContext *,
                                              std::optional<Location> location,
                                              Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  if (failed(verifyGradient(location, adaptor)) ||
      failed(expectShape(location, "scale", adaptor.getScale().getType(),
                         getRow(adaptor.getX()))))
    return failure();
  return inferLike(adaptor.getGradient(), {}, 0, types);
}

FormatRole RmsNormGradOp::getOperandFormat(unsigned index) {
  return index <= 1 ? FormatRole::Chosen : FormatRole::Wide;
}

std::optional<TensorRole> RmsNormGradOp::getOperandRole(unsigned index) {
  if (index == 2)
    return TensorRole::Norm;
  return std::nullopt;
}

FailureOr<SmallVector<Value>>
RmsNormGradOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overRows(b, getX());
  Value rstd = n.broadcast(getRstd());
  Value normal = n.mul(n.wide(getX()), rstd);
  Value g = n.mul(n.wide(getGradient()), n.broadcastLast(getScale()));
  Value mean = n.broadcast(n.mean(n.mul(g, normal)));
  Value dx = n.mul(rstd, n.sub(g, n.mul(normal, mean)));
  return SmallVector<Value>{n.as(dx, getDx())};
}

LogicalResult RmsNormScaleGradOp::inferReturnTypes(
    MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  if (failed(verifyGradient(location, adaptor)))
    return failure();
  types.push_back(
      RankedTensorType::get(getRow(adaptor.getX()), Float32Type::get(context)));
  return success();
}

FormatRole RmsNormScaleGradOp::getOperandFormat(unsigned index) {
  return index <= 1 ? FormatRole::Chosen : FormatRole::Wide;
}

FormatRole RmsNormScaleGradOp::getResultFormat(unsigned) {
  return FormatRole::Wide;
}

FailureOr<SmallVector<Value>>
RmsNormScaleGradOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer rows = Normalizer::overRows(b, getX());
  Value normal = rows.mul(rows.wide(getX()), rows.broadcast(getRstd()));
  Normalizer n = Normalizer::overAllBut(b, getX(), rows.reduced.front());
  return SmallVector<Value>{n.sum(n.mul(rows.wide(getGradient()), normal))};
}
