//===- ScoreGradients.h - Gradients of the scores of a query ----*- C++ -*-===//

namespace {

/// The scores of a query and the keys from `key` on. A causal mask hides all
/// but the first `visible` keys from the query.
struct ScoreRow {
  std::int64_t query = 0, key = 0, visible = 0;
  /// Inner products of the query with keys, which `finishRow` replaces by
  /// scores, and of the gradient of y with values.
  float *scores = nullptr;
  const float *dp = nullptr;
  float *tangents = nullptr; ///< Values of tanh of a soft cap; may be null.
  /// Probabilities are `share` times exponentials relative to `reference`.
  float reference = 0, share = 1;
  float inner = 0; ///< The inner product of rows of y and of its gradient.
};

/// Computes the inner products of `count` rows of y and of its gradient from
/// `first` on. `y` and `dy` have room for a row, padded to `padded` columns.
inline void computeInner(const Shape &shape, const Head &head,
                         std::int64_t first, std::int64_t count,
                         std::int64_t padded, float *y, float *dy,
                         float *inner) {
  for (std::int64_t j = shape.width; j < padded; ++j)
    y[j] = dy[j] = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    loadRow(head.y, first + i, shape.width, y);
    loadRow(head.dy, first + i, shape.width, dy);
    Floats sums(0);
    for (std::int64_t j = 0; j < shape.width; j += kLanes)
      sums = multiplyAdd(loadAs<Floats>(y + j), loadAs<Floats>(dy + j), sums);
    inner[i] = sumLanes(sums);
  }
}

/// Replaces the inner products of a row by scores, and sets `reference` and
/// `share`. `exponentials` has room for a row.
inline void finishRow(const Shape &shape, const Head &head, ScoreRow &row,
                      float *exponentials) {
  row.reference = head.lse[row.query * head.lseStride];
  if (shape.hasPlainScores())
    return;
  finishScores(shape, head, row.query, row.key, row.visible, row.scores,
               row.tangents);
  if (shape.hasExactStatistic)
    return;
  row.reference = findLargest(row.scores, row.visible, 1);
  row.share = 1 / addExponentials(row.scores, row.visible, 1, row.reference,
                                  exponentials);
}

/// Adds the gradients of 16 scores of a row, from score `j` on, to the gradient
/// of a bias if the head has one.
inline void accumulateBiasGradient(const Head &head, const ScoreRow &row,
                                   std::int64_t j, Floats gradients) {
  if (!head.dbias.data || j >= row.visible)
    return;
  auto *to = reinterpret_cast<float *>(head.dbias.data) +
             row.query * head.dbias.stride + row.key + j;
  if (row.visible - j >= kLanes)
    return storeAs(to, loadAs<Floats>(to) + gradients);
  for (std::int64_t i = 0; i < row.visible - j; ++i)
    to[i] += gradients[i];
}

/// For 16 keys: the probabilities after dropout, the gradients of scores, and
/// the gradients of products of queries and keys.
struct BackwardTerms {
  Floats weights, dscores, dproducts;
};
/// Returns the terms of a row from score `j` on; 0 where no score is visible.
inline BackwardTerms computeTerms(const Shape &shape, const Head &head,
                                  const ScoreRow &row, std::int64_t j) {
  bool isPlain = shape.hasPlainScores();
  Floats x = loadAs<Floats>(row.scores + j);
  if (isPlain)
    x *= shape.scale;
  x -= row.reference;
  x = Floats(kLargestExponent) < x ? Floats(kLargestExponent) : x;
  Floats p = exponential(x) * row.share, weights = p,
         dp = loadAs<Floats>(row.dp + j);
  bool isHidden = shape.zeroHidden && isMinusInfinity(row.reference);
  if (isHidden)
    weights = 0;
  if (shape.zeroNan)
    weights = zeroNan(weights);
  if (shape.hasDropout && j < row.visible) {
    Masks kept = drawKeepMask(shape, head.random, row.query, row.key + j);
    weights = applyDropout(shape, kept, weights);
    dp = applyDropout(shape, kept, dp);
  }
  Floats dscores = p * (dp - row.inner), dproducts = dscores;
  if (shape.softcap > 0) {
    Floats tangents = loadAs<Floats>(row.tangents + j);
    dproducts *= 1.0f - tangents * tangents;
  }
  dproducts *= shape.scale;
  if (isHidden)
    dscores = dproducts = 0;
  std::int64_t visible = row.visible - j;
  if (shape.hasMask && visible > 0) {
    Masks hidden = loadHidden(*head.mask, row.query, row.key + j, visible);
    dscores = hidden ? Floats(0) : dscores;
    dproducts = hidden ? Floats(0) : dproducts;
  }
  if (visible < kLanes) {
    Masks isVisible = getFirstLanes(visible);
    weights = isVisible ? weights : Floats(0);
    dscores = isVisible ? dscores : Floats(0);
    dproducts = isVisible ? dproducts : Floats(0);
  }
  return {weights, dscores, dproducts};
}

} // namespace
