//===- Attention.cpp - Scaled dot-product attention -----------------------===//
//
// Bounds allow that an implementation reads the keys once: it sums exponentials
// relative to a value near the largest score so far, rounds these instead of
// probabilities before they are multiplied, and divides at the end.
// Exponentials and logarithms may be wrong by two units in the last place, and
// values of the compute format may be rounded to 0 where f32 is subnormal.
// Exponentials may be powers of two, so that the factor log2(e) is rounded into
// the scale, and its product with the statistic of a query is rounded before
// the statistic is subtracted. A gradient of scores may be rounded before or
// after it is multiplied by the scale.
//
//===----------------------------------------------------------------------===//

#include "Exponentials.h"
#include "Families.h"
#include "Random.h"
#include "binade/Reference/FloatFormat.h"
#include "binade/Reference/Heads.h"
#include <cfloat>
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Returns the format to which probabilities are rounded before they multiply
/// `operand`.
static FloatFormat getFormat(PrecisionOpInterface op, const Tensor &operand) {
  return FloatFormat(
      getComputeFormat(op, operand.getType()).getFloatSemantics());
}

namespace {
/// One head: the rows of query, key, value and of their scores.
struct Head {
  template <typename Op>
  Head(Op op, Evaluation &e)
      : query(e[op.getQuery()]), key(e[op.getKey()]), value(e[op.getValue()]),
        rank(query.getRank()), queries(query.getDimSize(rank - 2)),
        keys(key.getDimSize(rank - 2)), depth(query.getDimSize(rank - 1)),
        width(value.getDimSize(rank - 1)),
        sharers(countHeads() / std::max<int64_t>(1, countHeads(key))),
        scale(op.getScale().convertToDouble()), causal(op.getCausal()),
        softcap(op.getSoftcap().convertToDouble()),
        fill(op.getFill().convertToDouble()),
        ratio(op.getRatio().convertToDouble()), stream(op.getStream()),
        zeroHidden(op.getZeroHidden()), zeroNaN(op.getZeroNan()) {
    for (Value bias : op.getBiases())
      biases.push_back(&e[bias]);
    if (op.getMask())
      mask = &e[op.getMask()];
    if (op.getRng())
      rng = e[op.getRng()].getIntegers();
    if (auto some = op->template getAttrOfType<DenseI64ArrayAttr>(kHeadsAttr))
      heads = some;
    FloatFormat format = getFormat(op, query);
    // A factor that both sides round may differ by two roundings.
    if (format.getRoundoff() > e.getRoundoff()) {
      computeError = 2.0 * format.getRoundoff() / e.getRoundoff();
      underflow = std::max(format.smallest, double(FLT_MIN)) / e.getRoundoff();
    }
  }

  static int64_t countHeads(const Tensor &x) {
    return ShapedType::getNumElements(x.getShape().drop_back(2));
  }
  int64_t countHeads() const { return countHeads(query); }
  /// Returns the row of key `j` of this head in keys and values.
  int64_t getKeyRow(int64_t j) const { return head / sharers * keys + j; }
  static ArrayRef<double> getRow(const Tensor &x, int64_t row) {
    int64_t length = x.getShape().back();
    return x.getFloats().slice(row * length, length);
  }

  /// Returns the index in `x`, a bias or a mask, that is broadcast to the score
  /// of query `i` of this head and key `j`.
  int64_t getBroadcastIndex(const Tensor &x, int64_t i, int64_t j) const {
    int64_t index = 0, step = 1, rest = head;
    for (int64_t axis = rank - 1; axis >= 0; --axis) {
      int64_t place = axis == rank - 1 ? j : axis == rank - 2 ? i : 0;
      if (axis < rank - 2) {
        place = rest % query.getDimSize(axis);
        rest /= query.getDimSize(axis);
      }
      if (x.getDimSize(axis) > 1)
        index += step * place;
      step *= x.getDimSize(axis);
    }
    return index;
  }

  bool isMasked(int64_t i, int64_t j) const {
    return mask && !mask->getIntegers()[getBroadcastIndex(*mask, i, j)];
  }

  /// Computes the score of query `i` and key `j` from their scaled product.
  void finishScore(int64_t i, int64_t j) {
    double &score = scores[j], &error = errors[j];
    if (softcap > 0.0) {
      // The quotient is rounded; its error grows no further. The hyperbolic
      // tangent is wrong by a few units, and the product is rounded.
      tangents[j] = std::tanh(score / softcap);
      tangentErrors[j] = error / softcap + std::fabs(score / softcap) + 5.0;
      double slope = 1.0 - tangents[j] * tangents[j];
      error = error * slope + std::fabs(score) * slope +
              5.0 * softcap * std::fabs(tangents[j]);
      score = softcap * tangents[j];
    }
    double sum = 0.0;
    for (const Tensor *bias : biases) {
      sum += (*bias)[getBroadcastIndex(*bias, i, j)];
      if (biases.size() > 1)
        error += std::fabs(sum);
    }
    if (!biases.empty()) {
      score += sum;
      error += std::fabs(score);
    }
    if (isMasked(i, j)) {
      score = fill;
      error = 0.0;
    }
  }

  /// Computes the scores of query `i` of this head for the keys that it sees,
  /// and bounds on their errors.
  void computeScores(int64_t i) {
    int64_t visible = causal ? i + 1 : keys;
    scores.assign(visible, 0.0);
    errors.assign(visible, 0.0);
    tangents.assign(visible, 0.0);
    tangentErrors.assign(visible, 0.0);
    ArrayRef<double> q = getRow(query, head * queries + i);
    double c = (getSumConstant(depth) + 2.0) * std::fabs(scale);
    for (int64_t j = 0; j < visible; ++j) {
      ArrayRef<double> k = getRow(key, getKeyRow(j));
      for (int64_t d = 0; d < depth; ++d) {
        scores[j] += scale * q[d] * k[d];
        errors[j] += c * std::fabs(q[d] * k[d]);
      }
      finishScore(i, j);
    }
  }

  /// Whether the probabilities of a query with `largest` as its largest score
  /// are 0.
  bool isHidden(double largest) const {
    return zeroHidden && largest == -INFINITY;
  }

  /// Returns the factor of the probability of query `i` and key `j`: 1 without
  /// dropout, and 0 where it is dropped.
  double getDropFactor(int64_t i, int64_t j) const {
    if (rng.empty())
      return 1.0;
    int64_t number = heads.empty() ? head : heads[head],
            index = (number * queries + i) * keys + j;
    return drawUniform(index, rng[0], rng[1], stream).front() < ratio
               ? 0.0
               : 1.0 / (1.0 - ratio);
  }

  /// Whether probabilities are computed from the logarithm of the sum of
  /// exponentials. They are not with biases, which may be huge.
  bool hasExactStatistic() const {
    return biases.empty() && (!mask || std::isinf(fill));
  }
  /// Whether an implementation may compute them from `lse` all the same,
  /// because it is small enough.
  static bool isSmall(double lse) { return std::fabs(lse) <= 64.0; }
  /// Returns the error of the exponents in a row whose largest score is
  /// `largest`.
  double getExponentError(double largest) const {
    return hasExactStatistic() ? std::fabs(largest) : 0.0;
  }
  /// Returns the error of the slope of the soft cap for key `j`.
  double getSlopeError(int64_t j) const {
    return softcap > 0.0 ? 2.0 * std::fabs(tangents[j]) * tangentErrors[j] + 4.0
                         : 0.0;
  }

  /// Returns the error of a sum over the scores that is multiplied by an
  /// exponential whenever a block of keys has a larger score.
  double getRescalingError() const {
    constexpr int64_t kBlock = 32;
    return 5.0 * double(llvm::divideCeil(scores.size(), kBlock));
  }

  const Tensor &query, &key, &value;
  int64_t rank, queries, keys, depth, width;
  int64_t sharers; ///< Heads of queries that share a head of keys.
  double scale;
  bool causal;
  double softcap, fill, ratio;
  int64_t stream;
  bool zeroHidden, zeroNaN;
  SmallVector<const Tensor *, 2> biases;
  const Tensor *mask = nullptr;
  ArrayRef<int64_t> rng; ///< Empty without dropout.
  /// The error of values that are rounded to the compute format, in units of
  /// the roundoff.
  double computeError = 0.0;
  /// The absolute error of such values that are subnormal, likewise.
  double underflow = 0.0;
  ArrayRef<int64_t> heads; ///< Their numbers for dropout; empty: 0, 1, ...
  int64_t head = 0;
  /// Scores, their errors, and the hyperbolic tangents of the soft cap.
  std::vector<double> scores, errors, tangents, tangentErrors;
};
} // namespace

static void evaluateAttention(AttentionOp op, Evaluation &e) {
  Head h(op, e);
  FloatFormat compute = getFormat(op, h.value);
  Tensor &y = e.result(0), &lse = e.result(1);
  double u = e.getRoundoff();
  for (; h.head < h.countHeads(); ++h.head)
    for (int64_t i = 0; i < h.queries; ++i) {
      h.computeScores(i);
      Exponentials sum(h.scores, h.errors);
      int64_t row = h.head * h.queries + i;
      lse[row] = sum.getLogarithm();
      double rescaling = h.getRescalingError() + h.getExponentError(sum.max);
      if (h.isHidden(sum.max)) {
        lse[row] = -INFINITY;
        continue;
      }
      e.setError(1, row, u * (sum.getLogarithmError() + rescaling + 4.0));
      std::vector<double> magnitudes(h.width), sizes(h.width);
      for (auto [j, score] : llvm::enumerate(h.scores)) {
        double p = std::exp(score - sum.max) / sum.total;
        if (h.zeroNaN && std::isnan(p))
          continue;
        double roundings =
            sum.max - score + h.errors[j] + sum.error + rescaling + 8.0;
        // The factor and the product are both rounded.
        if (double factor = h.getDropFactor(i, j); factor != 1.0) {
          p *= factor;
          roundings += 2.0;
        }
        if (h.computeError != 0.0)
          p = compute.round(p);
        ArrayRef<double> v = Head::getRow(h.value, h.getKeyRow(j));
        for (int64_t k = 0; k < h.width; ++k) {
          if (h.underflow != 0.0)
            magnitudes[k] += h.underflow * std::fabs(v[k]);
          if (p == 0.0)
            continue;
          y[row * h.width + k] += p * v[k];
          sizes[k] += std::fabs(p * v[k]);
          magnitudes[k] += (roundings + h.computeError) * std::fabs(p * v[k]);
        }
      }
      double c = getSumConstant(h.scores.size()) * e.getAccumulationRoundoff();
      for (int64_t k = 0; k < h.width; ++k)
        e.setError(0, row * h.width + k, u * magnitudes[k] + c * sizes[k]);
    }
}

namespace {
/// A gradient that is summed over queries and heads, and bounds on its errors.
struct Sum {
  explicit Sum(Tensor &sum) : sum(sum), errors(sum.getNumElements()) {}
  void add(int64_t index, double summand, double error) {
    sum[index] += summand;
    errors[index] += error;
  }
  Tensor &sum;
  std::vector<double> errors;
};

/// The probability of a key, the error relative to it, and its weight in the
/// sum of values.
struct Probability {
  double p, error, factor, weight;
};
} // namespace

/// Returns the probability of query `i` and key `j` that the backward pass
/// recomputes, from `lse` or from the sum of exponentials of the row.
static Probability getProbability(const Head &h, const Exponentials &sum,
                                  double lse, int64_t i, int64_t j) {
  double score = h.scores[j];
  Probability result;
  if (h.hasExactStatistic()) {
    result.p = std::exp(score - lse);
    result.error = h.errors[j] + std::fabs(score) + 2.0 * std::fabs(lse) + 8.0;
  } else {
    result.p = std::exp(score - sum.max) / sum.total;
    result.error = sum.max - score + h.errors[j] + sum.error + 8.0;
    if (Head::isSmall(lse))
      result.error += std::fabs(score) + 2.0 * std::fabs(lse);
  }
  result.factor = h.getDropFactor(i, j);
  // The factor and the product are both rounded.
  if (result.factor != 1.0)
    result.error += 2.0;
  bool isZero = h.zeroNaN && std::isnan(result.p);
  result.weight = isZero ? 0.0 : result.p * result.factor;
  if (isZero)
    result.error = 0.0;
  return result;
}

static void evaluateAttentionGrad(AttentionGradOp op, Evaluation &e) {
  Head h(op, e);
  const Tensor &dy = e[op.getGradient()], &y = e[op.getY()],
               &lse = e[op.getLse()];
  Sum dquery(e.result(0)), dkey(e.result(1)), dvalue(e.result(2));
  std::vector<Sum> dbiases;
  for (size_t index = 0; index < h.biases.size(); ++index)
    dbiases.emplace_back(e.result(3 + index));
  double u = e.getAccumulationRoundoff();
  double overKeys = getSumConstant(h.keys) + 1.0;
  double overQueries = getSumConstant(h.queries * h.sharers) + 1.0;
  double overAll = getSumConstant(h.countHeads() * h.queries * h.keys) + 1.0;
  // What each head adds to a shared gradient may be rounded first.
  if (h.sharers > 1)
    overQueries += h.computeError;
  double overWidth = getSumConstant(h.width) + 2.0;
  for (; h.head < h.countHeads(); ++h.head)
    for (int64_t i = 0; i < h.queries; ++i) {
      h.computeScores(i);
      Exponentials sum(h.scores, h.errors);
      if (h.isHidden(sum.max))
        continue;
      int64_t row = h.head * h.queries + i;
      ArrayRef<double> dyRow = Head::getRow(dy, row),
                       yRow = Head::getRow(y, row);
      double inner = 0.0, innerSize = 0.0;
      for (auto [g, o] : llvm::zip(dyRow, yRow)) {
        inner += g * o;
        innerSize += std::fabs(g * o);
      }
      for (int64_t j = 0, end = h.scores.size(); j < end; ++j) {
        auto [p, pError, factor, weight] =
            getProbability(h, sum, lse[row], i, j);
        if (p == 0.0)
          continue;
        int64_t other = h.getKeyRow(j);
        ArrayRef<double> v = Head::getRow(h.value, other);
        double dp = 0.0, dpSize = 0.0;
        for (int64_t k = 0; k < h.width; ++k) {
          dp += factor * dyRow[k] * v[k];
          dpSize += factor * std::fabs(dyRow[k] * v[k]);
          double summand = weight * dyRow[k];
          dvalue.add(other * h.width + k, summand,
                     (pError + h.computeError + overQueries) *
                             std::fabs(summand) +
                         h.underflow * std::fabs(dyRow[k]));
        }
        if (h.isMasked(i, j))
          continue;
        double dscore = p * (dp - inner);
        double products = std::fabs(p) * overWidth * (dpSize + innerSize);
        for (auto [bias, dbias] : llvm::zip(h.biases, dbiases))
          dbias.add(h.getBroadcastIndex(*bias, i, j), dscore,
                    (pError + 4.0 + overAll) * std::fabs(dscore) + products);
        double slope = h.scale * (1.0 - h.tangents[j] * h.tangents[j]);
        double ds = slope * dscore;
        double dsError = (pError + h.computeError + 4.0) * std::fabs(ds) +
                         std::fabs(slope) * products +
                         std::fabs(h.scale * dscore) * h.getSlopeError(j) +
                         h.underflow * std::max(1.0, std::fabs(h.scale));
        for (int64_t d = 0; d < h.depth; ++d) {
          int64_t q = row * h.depth + d, k = other * h.depth + d;
          dquery.add(q, ds * h.key[k],
                     (dsError + overKeys * std::fabs(ds)) *
                         std::fabs(h.key[k]));
          dkey.add(k, ds * h.query[q],
                   (dsError + overQueries * std::fabs(ds)) *
                       std::fabs(h.query[q]));
        }
      }
    }
  SmallVector<Sum *> sums = {&dquery, &dkey, &dvalue};
  for (Sum &dbias : dbiases)
    sums.push_back(&dbias);
  for (auto [result, sum] : llvm::enumerate(sums))
    for (auto [i, error] : llvm::enumerate(sum->errors))
      e.setError(result, i, u * error);
}

void mlir::binade::addAttention(Reference &reference) {
  reference.add<AttentionOp>(evaluateAttention);
  reference.add<AttentionGradOp>(evaluateAttentionGrad);
}
