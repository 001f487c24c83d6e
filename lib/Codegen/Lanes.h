//===- Lanes.h - Elementwise arithmetic as C++ expressions ------*- C++ -*-===//
//
// Lets expansions of mathematical functions read as formulas. A `FloatLanes`,
// `IntLanes` or `BoolLanes` is a scalar or a vector of any shape, and its
// operators create elementwise arith and math operations. A C++ number as the
// other operand becomes a splat constant of the same type.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LANES_H
#define BINADE_LIB_CODEGEN_LANES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

/// A mask of all bits of an f32 but its sign, the bits of infinity, and the
/// width of the fraction.
inline constexpr int32_t kMagnitude = 0x7fffffff, kInfinityBits = 0x7f800000;
inline constexpr int32_t kFractionBits = 23;

/// Base of the three kinds of lanes: a value, and the builder that creates ops
/// on it.
struct Lanes {
  ImplicitLocOpBuilder *builder;
  Value value;

  Lanes(ImplicitLocOpBuilder &builder, Value value)
      : builder(&builder), value(value) {}

  /// Returns the type of the lanes with another element type.
  Type typeWith(Type element) const {
    if (auto vector = dyn_cast<VectorType>(value.getType()))
      return vector.clone(element);
    return element;
  }
  unsigned width() const {
    return getElementTypeOrSelf(value).getIntOrFloatBitWidth();
  }

protected:
  Value splat(TypedAttr element) const;
  template <typename Op, typename... Args> Value create(Args &&...args) const {
    return Op::create(*builder, std::forward<Args>(args)...);
  }
};

/// Truth values.
struct BoolLanes : Lanes {
  using Lanes::Lanes;
  BoolLanes operator&(BoolLanes other) const {
    return {*builder, create<arith::AndIOp>(value, other.value)};
  }
  BoolLanes operator|(BoolLanes other) const {
    return {*builder, create<arith::OrIOp>(value, other.value)};
  }
};

/// Signless integers; arithmetic wraps.
struct IntLanes : Lanes {
  using Lanes::Lanes;
  IntLanes constant(uint64_t number) const {
    return {*builder,
            splat(IntegerAttr::get(getElementTypeOrSelf(value),
                                   APInt(width(), number, /*isSigned=*/false,
                                         /*implicitTrunc=*/true)))};
  }
  template <typename Op> IntLanes with(IntLanes other) const {
    return {*builder, create<Op>(value, other.value)};
  }
  IntLanes operator+(IntLanes other) const {
    return with<arith::AddIOp>(other);
  }
  IntLanes operator-(IntLanes other) const {
    return with<arith::SubIOp>(other);
  }
  IntLanes operator&(IntLanes other) const {
    return with<arith::AndIOp>(other);
  }
  IntLanes operator|(IntLanes other) const { return with<arith::OrIOp>(other); }
  IntLanes operator+(uint64_t n) const { return *this + constant(n); }
  IntLanes operator-(uint64_t n) const { return *this - constant(n); }
  IntLanes operator&(uint64_t n) const { return *this & constant(n); }
  IntLanes operator|(uint64_t n) const { return *this | constant(n); }
  IntLanes operator<<(unsigned n) const {
    return with<arith::ShLIOp>(constant(n));
  }
  /// Shifts zeros in.
  IntLanes operator>>(unsigned n) const {
    return with<arith::ShRUIOp>(constant(n));
  }
  /// Shifts the sign in.
  IntLanes shiftSigned(unsigned n) const {
    return with<arith::ShRSIOp>(constant(n));
  }
  BoolLanes compare(arith::CmpIPredicate predicate, IntLanes other) const {
    return {*builder, create<arith::CmpIOp>(predicate, value, other.value)};
  }
  /// Drops the high bits, or adds zeros.
  IntLanes resize(unsigned width) const;
};

/// Floats with IEEE arithmetic, without fast-math flags: each operation rounds
/// once. Comparisons with NaN are false, except `!=`.
struct FloatLanes : Lanes {
  using Lanes::Lanes;
  /// `number` must be exact in the element type.
  FloatLanes constant(double number) const;
  template <typename Op> FloatLanes with(FloatLanes other) const {
    return {*builder, create<Op>(value, other.value)};
  }
  FloatLanes operator+(FloatLanes x) const { return with<arith::AddFOp>(x); }
  FloatLanes operator-(FloatLanes x) const { return with<arith::SubFOp>(x); }
  FloatLanes operator*(FloatLanes x) const { return with<arith::MulFOp>(x); }
  FloatLanes operator/(FloatLanes x) const { return with<arith::DivFOp>(x); }
  FloatLanes operator+(double x) const { return *this + constant(x); }
  FloatLanes operator-(double x) const { return *this - constant(x); }
  FloatLanes operator*(double x) const { return *this * constant(x); }
  FloatLanes operator-() const {
    return {*builder, create<arith::NegFOp>(value)};
  }
  BoolLanes compare(arith::CmpFPredicate predicate, FloatLanes other) const {
    return {*builder, create<arith::CmpFOp>(predicate, value, other.value)};
  }
  BoolLanes operator<(FloatLanes x) const {
    return compare(arith::CmpFPredicate::OLT, x);
  }
  BoolLanes operator>(FloatLanes x) const {
    return compare(arith::CmpFPredicate::OGT, x);
  }
  BoolLanes operator==(FloatLanes x) const {
    return compare(arith::CmpFPredicate::OEQ, x);
  }
  BoolLanes operator!=(FloatLanes x) const {
    return compare(arith::CmpFPredicate::UNE, x);
  }
  BoolLanes operator<(double x) const { return *this < constant(x); }
  BoolLanes operator>(double x) const { return *this > constant(x); }
  BoolLanes operator==(double x) const { return *this == constant(x); }
  BoolLanes isNaN() const { return compare(arith::CmpFPredicate::UNO, *this); }
  /// Returns the bit patterns.
  IntLanes bits() const;
  /// Converts to the float type of `width` bits, rounding to nearest even if it
  /// is narrower.
  FloatLanes resize(unsigned width) const;
  template <typename Op> FloatLanes apply() const {
    return {*builder, create<Op>(value)};
  }
};

/// Reinterprets `pattern` as f32 or f64.
FloatLanes floatFromBits(IntLanes pattern);

/// Converts signed integers to f32 or f64 of the same width, rounding to
/// nearest even.
FloatLanes toFloat(IntLanes x);

/// An operand of `fma` or `select`: lanes, or a constant.
struct FloatOperand {
  FloatOperand(FloatLanes lanes) : lanes(lanes) {}
  FloatOperand(double number) : number(number) {}
  FloatLanes like(FloatLanes x) const {
    return lanes ? *lanes : x.constant(number);
  }
  std::optional<FloatLanes> lanes;
  double number = 0;
};

/// Returns x * y + z, rounded once.
FloatLanes fma(FloatLanes x, FloatOperand y, FloatOperand z);

/// Returns x where `condition` is true, otherwise y.
FloatLanes select(BoolLanes condition, FloatOperand x, FloatLanes y);
IntLanes select(BoolLanes condition, IntLanes x, IntLanes y);

/// Returns the smaller (larger) of x and a bound; NaN stays NaN.
FloatLanes atMost(FloatLanes x, double bound);
FloatLanes atLeast(FloatLanes x, double bound);

/// Returns the magnitude of x with the sign of `sign`.
FloatLanes copySign(FloatLanes x, FloatLanes sign);

/// Evaluates a polynomial. The coefficients are in the order of ascending
/// degree.
FloatLanes polynomial(FloatLanes x, ArrayRef<double> coefficients);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LANES_H
