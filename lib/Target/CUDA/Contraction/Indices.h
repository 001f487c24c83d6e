//===- Indices.h - Index arithmetic in kernels ------------------*- C++ -*-===//

#ifndef BINADE_LIB_TARGET_CUDA_CONTRACTION_INDICES_H
#define BINADE_LIB_TARGET_CUDA_CONTRACTION_INDICES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

/// Creates arithmetic on values of type index.
struct Indices {
  ImplicitLocOpBuilder &b;

  Value constant(int64_t value) const {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value add(Value x, Value y) const { return arith::AddIOp::create(b, x, y); }
  Value add(Value x, int64_t y) const { return add(x, constant(y)); }
  Value scale(Value x, int64_t factor) const {
    return arith::MulIOp::create(b, x, constant(factor));
  }
  /// Returns quotient and remainder of a non-negative index.
  std::pair<Value, Value> divide(Value x, int64_t by) const {
    return {arith::DivUIOp::create(b, x, constant(by)),
            arith::RemUIOp::create(b, x, constant(by))};
  }
  /// Returns x < bound, or null if x < `most` implies it. A negative x is not
  /// below any bound.
  Value isBelow(Value x, int64_t bound, int64_t most) const {
    return most <= bound ? Value() : isBelow(x, bound);
  }
  Value isBelow(Value x, int64_t bound) const {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x,
                                 constant(bound));
  }
  /// Returns x and y; null means true.
  Value both(Value x, Value y) const {
    return !x ? y : !y ? x : arith::AndIOp::create(b, x, y).getResult();
  }
};

} // namespace mlir::binade

#endif // BINADE_LIB_TARGET_CUDA_CONTRACTION_INDICES_H
