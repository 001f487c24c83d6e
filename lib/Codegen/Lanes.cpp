//===- Lanes.cpp - Elementwise arithmetic as C++ expressions --------------===//

#include "Lanes.h"

using namespace mlir;
using namespace mlir::binade;

static Type floatOfWidth(MLIRContext *context, unsigned width) {
  if (width == 64)
    return Float64Type::get(context);
  assert(width == 32 && "lanes are computed in f32 or f64");
  return Float32Type::get(context);
}

Value Lanes::splat(TypedAttr element) const {
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    element = DenseElementsAttr::get(vector, ArrayRef<Attribute>(element));
  return create<arith::ConstantOp>(element);
}

IntLanes IntLanes::resize(unsigned width) const {
  Type type = typeWith(builder->getIntegerType(width));
  if (width < this->width())
    return {*builder, create<arith::TruncIOp>(type, value)};
  return {*builder, create<arith::ExtUIOp>(type, value)};
}

FloatLanes FloatLanes::constant(double number) const {
  auto type = cast<FloatType>(getElementTypeOrSelf(value));
  APFloat converted(number);
  bool inexact;
  converted.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &inexact);
  assert(!inexact && "a coefficient must be exact in its format");
  return {*builder, splat(FloatAttr::get(type, converted))};
}

IntLanes FloatLanes::bits() const {
  Type type = typeWith(builder->getIntegerType(width()));
  return {*builder, create<arith::BitcastOp>(type, value)};
}

FloatLanes FloatLanes::resize(unsigned width) const {
  Type type = typeWith(floatOfWidth(builder->getContext(), width));
  if (width < this->width())
    return {*builder, create<arith::TruncFOp>(type, value)};
  return {*builder, create<arith::ExtFOp>(type, value)};
}

FloatLanes mlir::binade::floatFromBits(IntLanes pattern) {
  ImplicitLocOpBuilder &b = *pattern.builder;
  Type type = pattern.typeWith(floatOfWidth(b.getContext(), pattern.width()));
  return {b, arith::BitcastOp::create(b, type, pattern.value)};
}

FloatLanes mlir::binade::toFloat(IntLanes x) {
  ImplicitLocOpBuilder &b = *x.builder;
  Type type = x.typeWith(floatOfWidth(b.getContext(), x.width()));
  return {b, arith::SIToFPOp::create(b, type, x.value)};
}

FloatLanes mlir::binade::fma(FloatLanes x, FloatOperand y, FloatOperand z) {
  ImplicitLocOpBuilder &b = *x.builder;
  return {b, math::FmaOp::create(b, x.value, y.like(x).value, z.like(x).value)};
}

FloatLanes mlir::binade::select(BoolLanes condition, FloatOperand x,
                                FloatLanes y) {
  ImplicitLocOpBuilder &b = *y.builder;
  return {
      b, arith::SelectOp::create(b, condition.value, x.like(y).value, y.value)};
}

IntLanes mlir::binade::select(BoolLanes condition, IntLanes x, IntLanes y) {
  ImplicitLocOpBuilder &b = *y.builder;
  return {b, arith::SelectOp::create(b, condition.value, x.value, y.value)};
}

FloatLanes mlir::binade::atMost(FloatLanes x, double bound) {
  return select(x > bound, bound, x);
}

FloatLanes mlir::binade::atLeast(FloatLanes x, double bound) {
  return select(x < bound, bound, x);
}

FloatLanes mlir::binade::copySign(FloatLanes x, FloatLanes sign) {
  return {*x.builder,
          math::CopySignOp::create(*x.builder, x.value, sign.value)};
}

FloatLanes mlir::binade::polynomial(FloatLanes x,
                                    ArrayRef<double> coefficients) {
  FloatLanes sum = x.constant(coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back()))
    sum = fma(sum, x, c);
  return sum;
}
