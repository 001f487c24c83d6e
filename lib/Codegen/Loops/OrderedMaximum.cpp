//===- OrderedMaximum.cpp - Maxima of f32 as maxima of integers -----------===//
//
// The bits of an f32, with all but the sign inverted if it is negative, are a
// signed integer in the order of the values. The integer of -x is this one
// inverted. NaNs of either sign are at the two ends; adding or subtracting
// kNaNs, which wraps around, moves all of them to one end.
//
//===----------------------------------------------------------------------===//

#include "OrderedMaximum.h"
#include "../Lanes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;
using namespace mlir::binade;

static constexpr int32_t kNaNs = 0x7fffff;

static Value constantLike(ImplicitLocOpBuilder &b, Value like, int32_t value) {
  TypedAttr word = b.getI32IntegerAttr(value);
  if (auto vector = dyn_cast<VectorType>(like.getType()))
    word = DenseElementsAttr::get(vector, Attribute(word));
  return arith::ConstantOp::create(b, word);
}

/// Maps f32 bits to ordered integers; this is its own inverse.
static Value order(ImplicitLocOpBuilder &b, Value bits) {
  Value sign = arith::ShRSIOp::create(b, bits, constantLike(b, bits, 31));
  return arith::XOrIOp::create(
      b, bits,
      arith::AndIOp::create(b, sign, constantLike(b, bits, kMagnitude)));
}

bool OrderedMaximum::isFor(const Reduction &reduction, const Emitter &e) {
  return isa<ReduceMaxOp>(reduction.op) && !reduction.isOfMagnitudes() &&
         reduction.getPartialType().isF32() && !e.isOnGpu();
}

OrderedMaximum::OrderedMaximum(const Reduction &reduction)
    : x(reduction.getInput()) {
  auto negated = x.getDefiningOp<NegOp>();
  isOfNegated = negated != nullptr;
  if (isOfNegated)
    x = negated.getX();
}

Value OrderedMaximum::start(Emitter &e) const {
  ImplicitLocOpBuilder &b = e.builder();
  using Limits = std::numeric_limits<int32_t>;
  auto type = VectorType::get({e.wholeLanes()}, b.getI32Type());
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(
             type, Attribute(b.getI32IntegerAttr(
                       isOfNegated ? Limits::max() : Limits::min()))));
}

Value OrderedMaximum::accumulate(Emitter &e, Value partial,
                                 const Offset &offset) const {
  ImplicitLocOpBuilder &b = e.builder();
  Value lanes = e.pullLanes(x, offset);
  Type words = cast<VectorType>(lanes.getType()).clone(b.getI32Type());
  Value ordered = order(b, arith::BitcastOp::create(b, words, lanes));
  Value nans = constantLike(b, ordered, kNaNs);
  Value own = isOfNegated ? arith::AddIOp::create(b, ordered, nans).getResult()
                          : arith::SubIOp::create(b, ordered, nans).getResult();
  if (own.getType() != partial.getType())
    own = vector::InsertStridedSliceOp::create(
        b, own, start(e), ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
  return isOfNegated ? arith::MinSIOp::create(b, partial, own).getResult()
                     : arith::MaxSIOp::create(b, partial, own).getResult();
}

Value OrderedMaximum::finish(Emitter &e, Value partial) const {
  ImplicitLocOpBuilder &b = e.builder();
  using Kind = vector::CombiningKind;
  Value largest = vector::ReductionOp::create(
      b, isOfNegated ? Kind::MINSI : Kind::MAXSI, partial);
  if (isOfNegated)
    largest = arith::XOrIOp::create(b, largest, constantLike(b, largest, -1));
  Value ordered =
      arith::AddIOp::create(b, largest, constantLike(b, largest, kNaNs));
  return arith::BitcastOp::create(b, b.getF32Type(), order(b, ordered));
}
