//===- Scores.h - Scores from products of queries and keys ------*- C++ -*-===//

namespace {

template <typename Format>
inline Floats loadScores(const ScoreOperand &x, std::int64_t index,
                         std::int64_t count) {
  auto *from =
      reinterpret_cast<const typename Format::Stored *>(x.data) + index;
  if (x.keyStride == 1 && count >= kLanes)
    return Format::load(from);
  typename Format::Stored lanes[kLanes] = {};
  for (std::int64_t j = 0; j < getSmaller(count, kLanes); ++j)
    lanes[j] = from[j * x.keyStride];
  return Format::load(lanes);
}

/// Returns the elements for a query and `count` keys from `key` on, of which
/// there are 16 at most.
inline Floats loadScores(const ScoreOperand &x, std::int64_t query,
                         std::int64_t key, std::int64_t count) {
  std::int64_t index = query * x.queryStride + key * x.keyStride;
  if (x.dtype == DType::F32)
    return loadScores<F32>(x, index, count);
  if (x.dtype == DType::BF16)
    return loadScores<BF16>(x, index, count);
  return loadScores<F16>(x, index, count);
}

/// Returns where a mask is false.
inline Masks loadHidden(const ScoreOperand &mask, std::int64_t query,
                        std::int64_t key, std::int64_t count) {
  const std::byte *from =
      mask.data + query * mask.queryStride + key * mask.keyStride;
  Masks lanes = 0;
  for (std::int64_t j = 0; j < getSmaller(count, kLanes); ++j)
    lanes[j] = static_cast<std::int32_t>(from[j * mask.keyStride]);
  return lanes == 0;
}

/// Replaces the products of a query and `count` keys from `key` on by scores.
/// Stores the values of tanh of a soft cap in `tangents` unless it is null.
inline void finishScores(const Shape &shape, const Head &head,
                         std::int64_t query, std::int64_t key,
                         std::int64_t count, float *scores, float *tangents) {
  for (std::int64_t j = 0; j < count; j += kLanes) {
    Floats x = loadAs<Floats>(scores + j) * shape.scale;
    if (shape.softcap > 0) {
      x = hyperbolicTangent(x / shape.softcap);
      if (tangents)
        storeAs(tangents + j, x);
      x *= shape.softcap;
    }
    if (shape.biases > 0) {
      Floats sum = loadScores(head.biases[0], query, key + j, count - j);
      for (std::int64_t i = 1; i < shape.biases; ++i)
        sum += loadScores(head.biases[i], query, key + j, count - j);
      x += sum;
    }
    if (shape.hasMask)
      x = loadHidden(*head.mask, query, key + j, count - j) ? Floats(shape.fill)
                                                            : x;
    storeAs(scores + j, x);
  }
}

/// Returns the largest of the first `visible` scores times `scale`, or NaN if
/// one of them is NaN.
inline float findLargest(const float *scores, std::int64_t visible,
                         float scale) {
  Floats best(-__builtin_inff());
  std::int64_t whole = visible / kLanes * kLanes;
  for (std::int64_t j = 0; j < whole; j += kLanes)
    best = getLarger(loadAs<Floats>(scores + j) * scale, best);
  if (whole < visible) {
    Floats last = loadAs<Floats>(scores + whole) * scale;
    best = getLarger(getFirstLanes(visible - whole) ? last : best, best);
  }
  return findLargestLane(best);
}

/// Stores the exponentials of `visible` scores relative to `largest` in `to`,
/// and returns their sum.
inline float addExponentials(const float *scores, std::int64_t visible,
                             float scale, float largest, float *to) {
  Floats sums(0);
  std::int64_t whole = visible / kLanes * kLanes;
  for (std::int64_t j = 0; j < whole; j += kLanes) {
    Floats e = exponential(loadAs<Floats>(scores + j) * scale - largest);
    storeAs(to + j, e);
    sums += e;
  }
  if (whole < visible) {
    Floats e = exponential(loadAs<Floats>(scores + whole) * scale - largest);
    e = getFirstLanes(visible - whole) ? e : Floats(0);
    storeAs(to + whole, e);
    sums += e;
  }
  return sumLanes(sums);
}

inline bool isMinusInfinity(float x) { return x == -__builtin_inff(); }
inline Floats zeroNan(Floats x) { return x == x ? x : Floats(0); }

} // namespace
