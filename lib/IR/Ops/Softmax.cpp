//===- Softmax.cpp - Softmax and log-softmax ------------------------------===//

#include "Normalizer.h"

using namespace mlir;
using namespace mlir::binade;

/// Infers the type of a function on rows of `x`.
static LogicalResult inferRows(std::optional<Location> location, Value x,
                               SmallVectorImpl<Type> &types) {
  if (failed(expectRows(location, x)))
    return failure();
  return inferLike(x, {}, 0, types);
}

/// Infers the type of the gradient of a function on rows.
static LogicalResult inferRowGradient(std::optional<Location> location,
                                      Value gradient, Value y,
                                      SmallVectorImpl<Type> &types) {
  if (failed(expectRows(location, y)) ||
      failed(expectShape(location, "gradient", gradient.getType(),
                         getTensor(y).getShape())))
    return failure();
  return inferLike(gradient, {}, 0, types);
}

LogicalResult SoftmaxOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> location,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  return inferRows(location, adaptor.getX(), types);
}

SmallVector<Value> SoftmaxOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                           ArrayRef<Value> cotangents) {
  return {SoftmaxGradOp::create(b, cotangents.front(), getY())};
}

FailureOr<SmallVector<Value>> SoftmaxOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overRows(b, getX());
  Value x = n.wide(getX());
  Value e = n.exp(n.sub(x, n.broadcast(n.max(x))));
  // One division per row instead of one per element. The sum is between 1 and
  // the length of a row, so that the reciprocal is in range.
  Value share = ReciprocalOp::create(b, n.sum(e));
  return SmallVector<Value>{n.as(n.mul(e, n.broadcast(share)), getY())};
}

LogicalResult SoftmaxGradOp::inferReturnTypes(MLIRContext *,
                                              std::optional<Location> location,
                                              Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  return inferRowGradient(location, adaptor.getGradient(), adaptor.getY(),
                          types);
}

FailureOr<SmallVector<Value>>
SoftmaxGradOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overRows(b, getY());
  Value dy = n.wide(getGradient()), y = n.wide(getY());
  Value inner = n.broadcast(n.sum(n.mul(dy, y)));
  return SmallVector<Value>{n.as(n.mul(y, n.sub(dy, inner)), getDx())};
}

LogicalResult LogSoftmaxOp::inferReturnTypes(MLIRContext *,
                                             std::optional<Location> location,
                                             Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  return inferRows(location, adaptor.getX(), types);
}

SmallVector<Value> LogSoftmaxOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                              ArrayRef<Value> cotangents) {
  return {LogSoftmaxGradOp::create(b, cotangents.front(), getY())};
}

FailureOr<SmallVector<Value>> LogSoftmaxOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overRows(b, getX());
  Value x = n.wide(getX());
  Value centred = n.sub(x, n.broadcast(n.max(x)));
  Value logarithm = LogOp::create(b, n.sum(n.exp(centred)));
  return SmallVector<Value>{
      n.as(n.sub(centred, n.broadcast(logarithm)), getY())};
}

LogicalResult LogSoftmaxGradOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  return inferRowGradient(location, adaptor.getGradient(), adaptor.getY(),
                          types);
}

FailureOr<SmallVector<Value>>
LogSoftmaxGradOp::decompose(ImplicitLocOpBuilder &b) {
  Normalizer n = Normalizer::overRows(b, getY());
  Value dy = n.wide(getGradient()), y = n.wide(getY());
  Value total = n.broadcast(n.sum(dy));
  return SmallVector<Value>{n.as(n.sub(dy, n.mul(n.exp(y), total)), getDx())};
}
