//===- MathFunctions.h - Math functions on vectors --------------*- C++ -*-===//
// The same polynomials as in the f32 functions of generated kernels
// (lib/Codegen/Math), so that results have the same bits.
//===----------------------------------------------------------------------===//

namespace {

constexpr float kRoundToInteger = 0x1.8p23f;

/// e^x as `fraction` times a power of two, whose biased exponent is in the low
/// bits of `shifted`.
struct SplitExponential {
  Floats fraction, shifted;
  Floats getPower() const {
    return bitsOf<Floats>(bitsOf<Words>(shifted) << 23);
  }
};
template <int bias> inline SplitExponential splitExponential(Floats x) {
  constexpr float kRound = kRoundToInteger + bias;
  Floats shifted = multiplyAdd(Floats(0x1.715476p+0f), x, Floats(kRound));
  Floats n = shifted - kRound;
  Floats r = multiplyAdd(n, Floats(-0x1.62e400p-1f), x);
  r = multiplyAdd(n, Floats(-0x1.7f7d1cp-20f), r);
  Floats q = Floats(0x1.6a51bap-10f);
  q = multiplyAdd(q, r, Floats(0x1.123982p-7f));
  q = multiplyAdd(q, r, Floats(0x1.5558acp-5f));
  q = multiplyAdd(q, r, Floats(0x1.555492p-3f));
  q = multiplyAdd(q, r, Floats(0x1.fffffcp-2f));
  q = multiplyAdd(q, r, Floats(1.0f));
  q = multiplyAdd(q, r, Floats(1.0f));
  return {q, shifted};
}

/// The largest argument of `exponential`.
constexpr float kLargestExponent = 44;

/// Returns e^x for x <= `kLargestExponent`.
inline Floats exponential(Floats x) {
  x = Floats(-104.0f) > x ? Floats(-104.0f) : x;
  SplitExponential e = splitExponential<127 + 63>(x);
  // Only the last multiplication rounds a subnormal result.
  return e.fraction * e.getPower() * 0x1p-63f;
}

inline Floats hyperbolicTangent(Floats x) {
  Floats a = __builtin_elementwise_abs(x);
  Floats z = x * x;
  Floats q = Floats(-0x1.750ce4p-8f);
  q = multiplyAdd(q, z, Floats(0x1.51f8cep-6f));
  q = multiplyAdd(q, z, Floats(-0x1.b835a4p-5f));
  q = multiplyAdd(q, z, Floats(0x1.1106f6p-3f));
  q = multiplyAdd(q, z, Floats(-0x1.555532p-2f));
  Floats near = multiplyAdd(q * z, a, a);
  // 1 - 2 / (e^2a + 1), which rounds to 1 for a >= 9.125.
  Floats bounded = a > Floats(9.125f) ? Floats(9.125f) : a;
  SplitExponential e = splitExponential<127>(bounded + bounded);
  Floats far =
      1.0f - 2.0f / multiplyAdd(e.fraction, e.getPower(), Floats(1.0f));
  return __builtin_elementwise_copysign(a < 0.625f ? near : far, x);
}

} // namespace
