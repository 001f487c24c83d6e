//===- Normalizer.h - Builder for norms and softmax -------------*- C++ -*-===//

#ifndef BINADE_LIB_IR_OPS_NORMALIZER_H
#define BINADE_LIB_IR_OPS_NORMALIZER_H

#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"

namespace mlir::binade {

/// Emits an error unless `x` has an axis to normalize.
inline LogicalResult expectRows(std::optional<Location> location, Value x) {
  if (getTensor(x).getRank() > 0)
    return success();
  return emitOptionalError(location, "expected at least one axis, got ",
                           x.getType());
}

/// Infers the types of an op whose first result has the type of `x`, and whose
/// `count` others are f32 of `shape`.
inline LogicalResult inferLike(Value x, ArrayRef<int64_t> shape, unsigned count,
                               SmallVectorImpl<Type> &types) {
  types.push_back(x.getType());
  auto type = RankedTensorType::get(shape, Float32Type::get(x.getContext()));
  types.append(count, type);
  return success();
}

/// f32 arithmetic on `x` [..., axis, ...] and on vectors along the kept axes,
/// for the decompositions of norms and softmax.
struct Normalizer {
  ImplicitLocOpBuilder &b;
  RankedTensorType type; // f32
  SmallVector<int64_t> reduced, kept;

  /// Statistics per row, over the last axis.
  static Normalizer overRows(ImplicitLocOpBuilder &b, Value x) {
    int64_t rank = getTensor(x).getRank();
    return {b,
            getTensor(x).clone(b.getF32Type()),
            {rank - 1},
            llvm::to_vector(llvm::seq<int64_t>(0, rank - 1))};
  }
  /// Statistics per index of `axis`, over all other axes.
  static Normalizer overAllBut(ImplicitLocOpBuilder &b, Value x, int64_t axis) {
    Normalizer n{b, getTensor(x).clone(b.getF32Type()), {}, {axis}};
    n.reduced = llvm::to_vector(llvm::seq<int64_t>(0, n.type.getRank()));
    llvm::erase(n.reduced, axis);
    return n;
  }

  Value wide(Value x) { return buildCast(b, x, b.getF32Type()); }
  Value as(Value x, Value like) {
    return buildCast(b, x, getElementTypeOrSelf(like.getType()));
  }
  Value number(Value like, double v) {
    return buildSplat(b, like.getType(), v);
  }
  Value add(Value l, Value r) { return AddOp::create(b, l, r); }
  Value sub(Value l, Value r) { return SubOp::create(b, l, r); }
  Value mul(Value l, Value r) { return MulOp::create(b, l, r); }
  Value div(Value l, Value r) { return DivOp::create(b, l, r); }
  Value exp(Value x) { return ExpOp::create(b, x); }
  Value sum(Value x) { return ReduceSumOp::create(b, x, reduced); }
  Value max(Value x) { return ReduceMaxOp::create(b, x, reduced); }
  Value mean(Value x) {
    int64_t count = 1;
    for (int64_t axis : reduced)
      count *= type.getDimSize(axis);
    Value total = sum(x);
    return mul(total, number(total, 1.0 / count));
  }
  /// Broadcasts a statistic along the axes that it was reduced over.
  Value broadcast(Value x) {
    return buildBroadcast(b, x, kept, type.getShape());
  }
  /// Broadcasts a parameter that has one element per index of the last axis.
  Value broadcastLast(Value x) {
    return buildBroadcast(b, wide(x), {type.getRank() - 1}, type.getShape());
  }
  /// Returns 1 / sqrt(variance + epsilon).
  Value rstd(Value variance, const APFloat &epsilon) {
    Value shifted = add(variance, number(variance, epsilon.convertToDouble()));
    return div(number(shifted, 1.0), SqrtOp::create(b, shifted));
  }
};

} // namespace mlir::binade

#endif // BINADE_LIB_IR_OPS_NORMALIZER_H
