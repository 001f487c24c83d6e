//===- AttentionGraph.cpp - Attention as a graph of cuDNN -----------------===//
// cuDNN recognizes attention by these operations and tensors, which are those
// of NVIDIA's cudnn-frontend.
//===----------------------------------------------------------------------===//

#include "AttentionGraph.h"
#include <utility>

using namespace binade;
using namespace binade::cuda;
using namespace binade::cuda::cudnn;

static GraphAxes makeDense(const GraphAxes &sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
}

/// Swaps rows and columns, without moving data.
static GraphTensor transpose(GraphTensor tensor) {
  std::swap(tensor.sizes[2], tensor.sizes[3]);
  std::swap(tensor.strides[2], tensor.strides[3]);
  return tensor;
}

namespace {
class AttentionBuilder {
public:
  AttentionBuilder(CudnnGraph &graph, const AttentionProblem &problem)
      : graph(graph), p(problem),
        type(p.type == DType::F16 ? int(type::F16) : int(type::BF16)),
        scoreSizes{p.batch, p.heads, p.queries, p.keys},
        rowSizes{p.batch, p.heads, p.queries, 1} {
    scale = addScalar(AttentionIds::kScale);
  }

  void addForward();
  void addGradients();

private:
  using Which = AttentionOperand::Which;

  /// Describes an operand with `columns` columns, in memory.
  GraphTensor describe(Which which, std::int64_t columns) const {
    bool isGrouped = AttentionProblem::isGrouped(which);
    const HeadStrides &strides = p.strides[which];
    GraphTensor tensor;
    tensor.type = which == AttentionOperand::Lse ? int(type::F32) : type;
    tensor.sizes = {p.batch, isGrouped ? p.groups : p.heads,
                    isGrouped ? p.keys : p.queries, columns};
    tensor.strides = {strides.batch, strides.head, strides.row, 1};
    tensor.id = AttentionIds::of(which);
    return tensor;
  }
  GraphTensor add(Which which, std::int64_t columns) {
    return graph.add(describe(which, columns), GraphTensor::Memory);
  }
  GraphTensor addTransposed(Which which, std::int64_t columns) {
    return graph.add(transpose(describe(which, columns)), GraphTensor::Memory);
  }
  GraphTensor addScalar(std::int64_t id) {
    GraphTensor tensor;
    tensor.id = id;
    return graph.add(tensor, GraphTensor::Scalar);
  }
  /// Adds a virtual tensor that is dense.
  GraphTensor addDense(const GraphAxes &sizes, int type = cudnn::type::F32) {
    return graph.add({type, sizes, makeDense(sizes)});
  }
  GraphTensor addScores(int type = cudnn::type::F32) {
    return addDense(scoreSizes, type);
  }
  GraphTensor addRows() { return addDense(rowSizes); }

  /// Returns scores where keys are visible, and -infinity elsewhere.
  GraphTensor mask(const GraphTensor &scores);
  /// Rounds a matrix of scores to the type of the operands and transposes it.
  GraphTensor roundTransposed(const GraphTensor &scores);
  /// Multiplies by a matrix of each query head, and adds up the results of the
  /// heads of a group, rounded to the type of the operands.
  void multiplyGrouped(const GraphTensor &left, const GraphTensor &right,
                       const GraphTensor &out);

  CudnnGraph &graph;
  const AttentionProblem &p;
  int type;
  GraphAxes scoreSizes, rowSizes;
  GraphTensor scale;
};
} // namespace

GraphTensor AttentionBuilder::mask(const GraphTensor &scores) {
  constexpr std::int64_t kRow = 2, kColumn = 3;
  if (!p.causal)
    return scores;
  GraphTensor row = addScores(type::I32), column = addScores(type::I32),
              isVisible = addScores(type::Boolean),
              hidden = addScalar(AttentionIds::kMask), masked = addScores();
  graph.index(kRow, scores, row);
  graph.index(kColumn, scores, column);
  graph.compare(pointwise::GreaterOrEqual, row, column, isVisible);
  graph.select(isVisible, scores, hidden, masked);
  return masked;
}

void AttentionBuilder::addForward() {
  GraphTensor query = add(AttentionOperand::Query, p.depth),
              key = addTransposed(AttentionOperand::Key, p.depth),
              value = add(AttentionOperand::Value, p.width),
              y = add(AttentionOperand::Y, p.width),
              lse = add(AttentionOperand::Lse, 1);
  GraphTensor products = addScores(), scores = addScores();
  graph.multiply(query, key, products);
  graph.apply(pointwise::Multiply, products, scale, scores);
  scores = mask(scores);
  GraphTensor maximum = addRows(), sum = addRows(), logarithm = addRows(),
              shifted = addScores(), exponentials = addScores(),
              probabilities = addScores(type);
  graph.reduce(reduction::Max, scores, maximum);
  graph.apply(pointwise::Subtract, scores, maximum, shifted);
  graph.apply(pointwise::Exp, shifted, exponentials);
  graph.reduce(reduction::Add, exponentials, sum);
  graph.apply(pointwise::Log, sum, logarithm);
  graph.apply(pointwise::Add, maximum, logarithm, lse);
  graph.apply(pointwise::Divide, exponentials, sum, probabilities);
  graph.multiply(probabilities, value, y);
}

GraphTensor AttentionBuilder::roundTransposed(const GraphTensor &scores) {
  GraphTensor transposed = transpose({type, scoreSizes, makeDense(scoreSizes)});
  transposed = graph.add(transposed);
  graph.reshape(scores, transposed);
  return transposed;
}

void AttentionBuilder::multiplyGrouped(const GraphTensor &left,
                                       const GraphTensor &right,
                                       const GraphTensor &out) {
  if (p.groups == p.heads)
    return graph.multiply(left, right, out);
  GraphTensor heads =
      addDense({p.batch, p.heads, p.keys, out.sizes.back()}, type);
  graph.multiply(left, right, heads);
  graph.reduce(reduction::Add, heads, out);
}

void AttentionBuilder::addGradients() {
  GraphTensor query = add(AttentionOperand::Query, p.depth),
              key = addTransposed(AttentionOperand::Key, p.depth),
              value = addTransposed(AttentionOperand::Value, p.width),
              y = add(AttentionOperand::Y, p.width),
              lse = add(AttentionOperand::Lse, 1),
              dy = add(AttentionOperand::Dy, p.width),
              dquery = add(AttentionOperand::Dquery, p.depth),
              dkey = add(AttentionOperand::Dkey, p.depth),
              dvalue = add(AttentionOperand::Dvalue, p.width);

  // cudnn-frontend gives the elementwise products these strides.
  GraphTensor dyY = {type::F32, dy.sizes, makeDense(dy.sizes)};
  dyY.strides[2] = p.heads * p.width;
  dyY = graph.add(dyY);
  GraphTensor products = addRows(), one = addScalar(AttentionIds::kOne),
              sums = {type::F32, rowSizes, makeDense(rowSizes)};
  sums.id = AttentionIds::kSums;
  sums = graph.add(sums, GraphTensor::Memory);
  graph.apply(pointwise::Multiply, dy, y, dyY);
  graph.reduce(reduction::Add, dyY, products);
  graph.apply(pointwise::Multiply, products, one, sums);

  GraphTensor raw = addScores(), scores = addScores(), shifted = addScores();
  graph.multiply(query, key, raw);
  graph.apply(pointwise::Multiply, raw, scale, scores);
  graph.apply(pointwise::Subtract, scores, lse, shifted);
  shifted = mask(shifted);
  GraphTensor probabilities = addScores();
  graph.apply(pointwise::Exp, shifted, probabilities);
  multiplyGrouped(roundTransposed(probabilities), dy, dvalue);

  GraphTensor dprobabilities = addScores(), centred = addScores(),
              weighted = addScores(), dscores = addScores();
  graph.multiply(dy, value, dprobabilities);
  graph.apply(pointwise::Subtract, dprobabilities, sums, centred);
  graph.apply(pointwise::Multiply, centred, probabilities, weighted);
  graph.apply(pointwise::Multiply, weighted, scale, dscores);
  multiplyGrouped(roundTransposed(dscores), query, dkey);

  GraphTensor rows = transpose(key);
  rows.type = type::F32;
  rows.id = 0;
  rows = graph.add(rows);
  graph.reshape(key, rows);
  // Without an operation after it, cuDNN adds the parts of this sum in order;
  // it would add into an f32 tensor in memory atomically.
  graph.multiply(dscores, rows, dquery);
}

void cuda::addAttention(CudnnGraph &graph, const AttentionProblem &problem) {
  AttentionBuilder builder(graph, problem);
  if (problem.areGradients)
    builder.addGradients();
  else
    builder.addForward();
}
