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
#include "binade/Reference/FloatFormat.h"
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
        scale(op.getScale().convertToDouble()), causal(op.getCausal()) {
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

  /// Computes the scores of query `i` of this head for the keys that it sees,
  /// and bounds on their errors.
  void computeScores(int64_t i) {
    int64_t visible = causal ? i + 1 : keys;
    scores.assign(visible, 0.0);
    errors.assign(visible, 0.0);
    ArrayRef<double> q = getRow(query, head * queries + i);
    double c = (getSumConstant(depth) + 2.0) * std::fabs(scale);
    for (int64_t j = 0; j < visible; ++j) {
      ArrayRef<double> k = getRow(key, getKeyRow(j));
      for (int64_t d = 0; d < depth; ++d) {
        scores[j] += scale * q[d] * k[d];
        errors[j] += c * std::fabs(q[d] * k[d]);
      }
    }
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
  /// The error of values that are rounded to the compute format, in units of
  /// the roundoff.
  double computeError = 0.0;
  /// The absolute error of such values that are subnormal, likewise.
  double underflow = 0.0;
  int64_t head = 0;
  std::vector<double> scores, errors;
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
      double rescaling = h.getRescalingError() + std::fabs(sum.max);
      e.setError(1, row, u * (sum.getLogarithmError() + rescaling + 4.0));
      std::vector<double> magnitudes(h.width), sizes(h.width);
      for (auto [j, score] : llvm::enumerate(h.scores)) {
        double p = std::exp(score - sum.getLogarithm());
        double roundings =
            sum.max - score + h.errors[j] + sum.error + rescaling + 8.0;
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

static void evaluateAttentionGrad(AttentionGradOp op, Evaluation &e) {
  Head h(op, e);
  const Tensor &dy = e[op.getGradient()], &y = e[op.getY()],
               &lse = e[op.getLse()];
  Tensor &dquery = e.result(0), &dkey = e.result(1), &dvalue = e.result(2);
  std::vector<double> queryError(dquery.getNumElements()),
      keyError(dkey.getNumElements()), valueError(dvalue.getNumElements());
  double u = e.getAccumulationRoundoff();
  double overKeys = getSumConstant(h.keys) + 1.0;
  double overQueries = getSumConstant(h.queries * h.sharers) + 1.0;
  // What each head adds to a shared gradient may be rounded first.
  if (h.sharers > 1)
    overQueries += h.computeError;
  double overWidth = getSumConstant(h.width) + 2.0;
  for (; h.head < h.countHeads(); ++h.head)
    for (int64_t i = 0; i < h.queries; ++i) {
      h.computeScores(i);
      int64_t row = h.head * h.queries + i;
      ArrayRef<double> dyRow = Head::getRow(dy, row),
                       yRow = Head::getRow(y, row);
      double inner = 0.0, innerSize = 0.0;
      for (auto [g, o] : llvm::zip(dyRow, yRow)) {
        inner += g * o;
        innerSize += std::fabs(g * o);
      }
      for (auto [j, score] : llvm::enumerate(h.scores)) {
        double p = std::exp(score - lse[row]);
        if (p == 0.0)
          continue;
        double pError =
            h.errors[j] + std::fabs(score) + 2.0 * std::fabs(lse[row]) + 8.0;
        int64_t other = h.getKeyRow(j);
        ArrayRef<double> v = Head::getRow(h.value, other);
        double dp = 0.0, dpSize = 0.0;
        for (int64_t k = 0; k < h.width; ++k) {
          dp += dyRow[k] * v[k];
          dpSize += std::fabs(dyRow[k] * v[k]);
          int64_t at = other * h.width + k;
          dvalue[at] += p * dyRow[k];
          valueError[at] += (pError + h.computeError + overQueries) *
                                std::fabs(p * dyRow[k]) +
                            h.underflow * std::fabs(dyRow[k]);
        }
        double ds = h.scale * p * (dp - inner);
        double dsError =
            (pError + h.computeError + 4.0) * std::fabs(ds) +
            std::fabs(h.scale * p) * overWidth * (dpSize + innerSize) +
            h.underflow * std::max(1.0, std::fabs(h.scale));
        for (int64_t d = 0; d < h.depth; ++d) {
          int64_t q = row * h.depth + d, k = other * h.depth + d;
          dquery[q] += ds * h.key[k];
          queryError[q] +=
              (dsError + overKeys * std::fabs(ds)) * std::fabs(h.key[k]);
          dkey[k] += ds * h.query[q];
          keyError[k] +=
              (dsError + overQueries * std::fabs(ds)) * std::fabs(h.query[q]);
        }
      }
    }
  for (auto [result, errors] :
       llvm::enumerate(ArrayRef{&queryError, &keyError, &valueError}))
    for (auto [i, error] : llvm::enumerate(*errors))
      e.setError(result, i, u * error);
}

void mlir::binade::addAttention(Reference &reference) {
  reference.add<AttentionOp>(evaluateAttention);
  reference.add<AttentionGradOp>(evaluateAttentionGrad);
}
