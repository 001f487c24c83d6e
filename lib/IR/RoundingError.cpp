//===- RoundingError.cpp - Rounding errors of bf16 in 8 bits --------------===//

#include "binade/IR/RoundingError.h"

using namespace mlir;
using namespace mlir::binade;

/// The bits of the sign, the exponent, a quiet NaN, the smallest normal f32 and
/// 2^127.
static constexpr uint32_t kSignBit = 0x80000000, kExponent = 0x7f800000,
                          kQuietBit = 0x00400000, kMinNormal = 0x00800000,
                          kLargestPower = 0x7f000000;
/// The bits of an f32 that bf16 has, and half a unit in the last place of bf16.
static constexpr uint32_t kUpper = 0xffff0000, kHalf = 0x8000;
static constexpr double kMaxCode = 127;

namespace {
/// Signless i32, scalars or vectors.
class WordLanes {
public:
  WordLanes(ImplicitLocOpBuilder &b, Value value) : b(&b), value(value) {}
  WordLanes like(uint32_t number) const {
    return {*b, splat(*b, value, static_cast<int32_t>(number))};
  }
  template <typename Op> WordLanes with(WordLanes x) const {
    return {*b, Op::create(*b, value, x.value)};
  }
  WordLanes operator+(WordLanes x) const { return with<arith::AddIOp>(x); }
  WordLanes operator-(WordLanes x) const { return with<arith::SubIOp>(x); }
  WordLanes operator&(uint32_t x) const { return with<arith::AndIOp>(like(x)); }
  WordLanes operator|(uint32_t x) const { return with<arith::OrIOp>(like(x)); }
  WordLanes operator>>(unsigned n) const {
    return with<arith::ShRUIOp>(like(n));
  }
  Value asFloat() const { return bitcast(*b, value, b->getF32Type()); }
  static WordLanes ofFloat(ImplicitLocOpBuilder &b, Value x) {
    return {b, bitcast(b, x, b.getI32Type())};
  }

  ImplicitLocOpBuilder *b;
  Value value;

private:
  static Value bitcast(ImplicitLocOpBuilder &b, Value x, Type element) {
    auto vector = dyn_cast<VectorType>(x.getType());
    return arith::BitcastOp::create(b, vector ? vector.clone(element) : element,
                                    x);
  }
};
} // namespace

static Value multiply(ImplicitLocOpBuilder &b, Value x, double factor) {
  return arith::MulFOp::create(b, x, splat(b, x, factor));
}

/// Returns the bits of 2^e, where e is the exponent of `rounded`, at least that
/// of the smallest normal f32. Bf16 values at `rounded` are 2^(e - 7) apart.
static WordLanes getPower(WordLanes rounded) {
  WordLanes field = rounded & kExponent;
  return field.with<arith::MaxUIOp>(field.like(kMinNormal));
}

/// The product with a power of two is exact, so that the sum rounds once. The
/// error of code / 127 is far below the distance to the nearest tie.
Value mlir::binade::addRoundingError(ImplicitLocOpBuilder &b, Value rounded,
                                     Value code) {
  WordLanes power = getPower(WordLanes::ofFloat(b, rounded));
  // Infinity plus a finite error is infinite.
  power = power.with<arith::MinUIOp>(power.like(kLargestPower));
  Value number = arith::SIToFPOp::create(b, rounded.getType(), code);
  constexpr auto kStep = static_cast<float>(0x1p-8 / kMaxCode);
  return math::FmaOp::create(b, multiply(b, number, static_cast<double>(kStep)),
                             power.asFloat(), rounded);
}

/// Rounds to nearest even; a NaN stays a NaN.
static WordLanes roundToUpper(WordLanes word, Value number) {
  ImplicitLocOpBuilder &b = *word.b;
  WordLanes up = (word + word.like(kHalf - 1) + ((word >> 16) & 1)) & kUpper;
  WordLanes quiet = (word | kQuietBit) & kUpper;
  Value isNaN =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, number, number);
  return {b, arith::SelectOp::create(b, isNaN, quiet.value, up.value)};
}

std::pair<Value, Value>
mlir::binade::splitRoundingError(ImplicitLocOpBuilder &b, Value number) {
  WordLanes rounded = roundToUpper(WordLanes::ofFloat(b, number), number);
  Value near = rounded.asFloat();
  Value error = arith::SubFOp::create(b, number, near);
  // 2^(1 - e), whose exponent field is 255 less that of 2^e. All products are
  // exact.
  WordLanes power = getPower(rounded);
  Value scale = (power.like(kExponent) - power).asFloat();
  Value scaled =
      multiply(b, arith::MulFOp::create(b, error, scale), kMaxCode * 0x1p7);
  // Only where the number is not finite, or overflows, this is NaN.
  Value isNumber =
      arith::CmpFOp::create(b, arith::CmpFPredicate::ORD, scaled, scaled);
  scaled = arith::SelectOp::create(b, isNumber, scaled, splat(b, scaled, 0.0));
  // Half away from zero.
  WordLanes sign = WordLanes::ofFloat(b, scaled) & kSignBit;
  Value half = (sign | 0x3f000000).asFloat();
  Value code = arith::FPToSIOp::create(b, rounded.value.getType(),
                                       arith::AddFOp::create(b, scaled, half));
  return {near, code};
}
