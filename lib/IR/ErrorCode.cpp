//===- ErrorCode.cpp - Rounding errors of bf16 in 8 bits ------------------===//

#include "binade/IR/ErrorCode.h"

using namespace mlir;
using namespace mlir::binade;

/// The bits of the sign, the fraction, infinity and the smallest normal f32.
static constexpr uint32_t kSign = 0x80000000, kMagnitude = 0x7fffffff,
                          kFraction = 0x007fffff, kInfinity = 0x7f800000,
                          kMinNormal = 0x00800000;
/// The bits of an f32 that bf16 lacks, the bit that makes a NaN quiet, and half
/// the distance between bf16 values of one binade, in units of the last place
/// of f32.
static constexpr uint32_t kUpper = 0xffff0000, kQuietBit = 0x00400000,
                          kHalf = 0x8000;
static constexpr int32_t kMaxCode = 127;
/// kHalf / kMaxCode in fixed point. The product with a code, rounded, is exact
/// for all codes and twice their values.
static constexpr unsigned kPlaces = 14;
static constexpr int32_t kStep =
    ((uint64_t(kHalf) << kPlaces) + kMaxCode / 2) / kMaxCode;

namespace {
/// Signless i32, scalars or vectors.
class WordLanes {
public:
  WordLanes(ImplicitLocOpBuilder &b, Value value) : b(&b), value(value) {}
  WordLanes like(uint32_t number) const {
    return {*b, splat(*b, value, static_cast<int32_t>(number))};
  }
  WordLanes operator+(WordLanes x) const { return with<arith::AddIOp>(x); }
  WordLanes operator-(WordLanes x) const { return with<arith::SubIOp>(x); }
  WordLanes operator*(uint32_t x) const { return with<arith::MulIOp>(like(x)); }
  WordLanes operator+(uint32_t x) const { return *this + like(x); }
  WordLanes operator&(uint32_t x) const { return with<arith::AndIOp>(like(x)); }
  WordLanes operator|(uint32_t x) const { return with<arith::OrIOp>(like(x)); }
  WordLanes operator>>(unsigned n) const {
    return with<arith::ShRUIOp>(like(n));
  }
  WordLanes shiftSigned(unsigned n) const {
    return with<arith::ShRSIOp>(like(n));
  }
  WordLanes atLeast(WordLanes x) const { return with<arith::MaxSIOp>(x); }
  /// Negates the lanes where `sign` is -1; it is 0 elsewhere.
  WordLanes negateWhere(WordLanes sign) const {
    return with<arith::XOrIOp>(sign) - sign;
  }
  Value compare(arith::CmpIPredicate predicate, uint32_t x) const {
    return arith::CmpIOp::create(*b, predicate, value, like(x).value);
  }
  WordLanes select(Value condition, WordLanes x) const {
    return {*b, arith::SelectOp::create(*b, condition, x.value, value)};
  }

  ImplicitLocOpBuilder *b;
  Value value;

private:
  template <typename Op> WordLanes with(WordLanes x) const {
    return {*b, Op::create(*b, value, x.value)};
  }
};
} // namespace

static Value bitcastTo(ImplicitLocOpBuilder &b, Value x, Type element) {
  auto vector = dyn_cast<VectorType>(x.getType());
  return arith::BitcastOp::create(b, vector ? vector.clone(element) : element,
                                  x);
}

/// Whether values next to `rounded` are half as far apart in the direction of 0
/// as away from it.
static Value beginsBinade(WordLanes rounded) {
  Value isWhole = (rounded & kFraction).compare(arith::CmpIPredicate::eq, 0);
  Value isNormal =
      (rounded & kMagnitude).compare(arith::CmpIPredicate::ugt, kMinNormal);
  return arith::AndIOp::create(*rounded.b, isWhole, isNormal);
}

/// Replaces `x` by 0 where `rounded` is infinite or NaN.
static WordLanes clearNonFinite(WordLanes x, WordLanes rounded) {
  Value isFinite =
      (rounded & kMagnitude).compare(arith::CmpIPredicate::ult, kInfinity);
  return x.like(0).select(isFinite, x);
}

/// Doubles what is negative at the beginning of a binade, or, without
/// `isBelowDoubled`, everything else.
static WordLanes scaleToBinade(WordLanes x, WordLanes rounded,
                               bool isBelowDoubled) {
  Value isNegative = x.compare(arith::CmpIPredicate::slt, 0);
  Value isBelow =
      arith::AndIOp::create(*x.b, isNegative, beginsBinade(rounded));
  return isBelowDoubled ? x.select(isBelow, x + x) : (x + x).select(isBelow, x);
}

Value mlir::binade::buildWithError(ImplicitLocOpBuilder &b, Value rounded,
                                   Value code) {
  WordLanes word(b, bitcastTo(b, rounded, b.getI32Type()));
  // The magnitude grows if code and number have the same sign.
  WordLanes outwards = WordLanes(b, code).negateWhere(word.shiftSigned(31));
  WordLanes scaled = scaleToBinade(outwards, word, /*isBelowDoubled=*/true);
  WordLanes error =
      (scaled * kStep + (1u << (kPlaces - 1))).shiftSigned(kPlaces);
  // An error that crosses 0, which no f32 has, gives 0.
  error = error.atLeast(word.like(0) - (word & kMagnitude));
  WordLanes sum = word + clearNonFinite(error, word);
  return bitcastTo(b, sum.value, b.getF32Type());
}

std::pair<Value, Value> mlir::binade::buildErrorCode(ImplicitLocOpBuilder &b,
                                                     Value number) {
  WordLanes word(b, bitcastTo(b, number, b.getI32Type()));
  WordLanes isOdd = (word >> 16) & 1;
  WordLanes rounded = (word + (kHalf - 1) + isOdd) & kUpper;
  Value isNaN =
      (word & kMagnitude).compare(arith::CmpIPredicate::ugt, kInfinity);
  rounded = rounded.select(isNaN, (word | kQuietBit) & kUpper);
  // Both have the same sign, so that the difference is one of magnitudes.
  WordLanes scaled =
      scaleToBinade(word - rounded, rounded, /*isBelowDoubled=*/false);
  WordLanes product = scaled * kMaxCode + kHalf + scaled.shiftSigned(31);
  WordLanes outwards = clearNonFinite(product.shiftSigned(16), rounded);
  WordLanes code = outwards.negateWhere(rounded.shiftSigned(31));
  return {bitcastTo(b, rounded.value, b.getF32Type()), code.value};
}
