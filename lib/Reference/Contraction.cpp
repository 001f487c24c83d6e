//===- Contraction.cpp - Matmuls ------------------------------------------===//

#include "Accumulation.h"
#include "Families.h"
#include "Matmul.h"
#include "binade/Reference/Interpreter.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Returns matrix `index` of a batch as rows x columns, transposed if
/// requested.
static std::vector<double> takeMatrix(const Tensor &x, int64_t index,
                                      bool transpose) {
  int64_t rank = x.getRank();
  int64_t rows = x.getDimSize(rank - 2), columns = x.getDimSize(rank - 1);
  ArrayRef<double> data =
      x.getFloats().slice(index * rows * columns, rows * columns);
  if (!transpose)
    return std::vector<double>(data.begin(), data.end());
  std::vector<double> matrix(data.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      matrix[j * rows + i] = data[i * columns + j];
  return matrix;
}

static void takeMagnitudes(std::vector<double> &matrix) {
  for (double &x : matrix)
    x = std::fabs(x);
}

namespace {
/// y = scale (left right) + bias; `scale` is the product of `factors` rounded
/// factors.
struct Product {
  const Tensor &left, &right;
  bool transposeLeft = false, transposeRight = false;
  const Tensor *bias = nullptr;
  double scale = 1.0;
  int64_t factors = 0;

  void evaluate(Evaluation &e) const;
};
} // namespace

void Product::evaluate(Evaluation &e) const {
  Tensor &y = e.result();
  int64_t rank = y.getRank();
  int64_t m = y.getDimSize(rank - 2), n = y.getDimSize(rank - 1);
  int64_t k = left.getDimSize(transposeLeft ? rank - 2 : rank - 1);
  int64_t matrices = m * n == 0 ? 0 : y.getNumElements() / (m * n);
  double u = e.getAccumulationRoundoff() *
             getSumConstant(k + factors + (bias != nullptr));
  std::vector<double> magnitudes(m * n);
  for (int64_t index = 0; index < matrices; ++index) {
    std::vector<double> lhs = takeMatrix(left, index, transposeLeft);
    std::vector<double> rhs = takeMatrix(right, index, transposeRight);
    MutableArrayRef<double> sums = y.getFloats().slice(index * m * n, m * n);
    accumulateMatmul(lhs, rhs, sums, m, k, n);
    for (int64_t i = 0; i < m * n; ++i)
      sums[i] = sums[i] * scale + (bias ? (*bias)[i % n] : 0.0);
    if (!e.wantsErrors())
      continue;
    takeMagnitudes(lhs);
    takeMagnitudes(rhs);
    std::fill(magnitudes.begin(), magnitudes.end(), 0.0);
    accumulateMatmul(lhs, rhs, magnitudes, m, k, n);
    for (int64_t i = 0; i < m * n; ++i) {
      double shift = bias ? (*bias)[i % n] : 0.0;
      e.setError(0, index * m * n + i,
                 u * (magnitudes[i] * std::fabs(scale) + std::fabs(shift)));
    }
  }
}

static void evaluateMatmul(MatmulOp op, Evaluation &e) {
  Product product{e[op.getLhs()], e[op.getRhs()], op.getTransposeLhs(),
                  op.getTransposeRhs()};
  if (op.getBias())
    product.bias = &e[op.getBias()];
  product.evaluate(e);
}

/// Multiplies quantized elements by the scales of blocks of `rows` x
/// `summands`; exact.
static Tensor applyScales(Tensor codes, const Tensor &scales, int64_t rows,
                          int64_t summands) {
  int64_t columns = codes.getDimSize(1), length = scales.getDimSize(1);
  for (auto [index, x] : llvm::enumerate(codes.getFloats())) {
    int64_t row = int64_t(index) / columns / rows,
            block = int64_t(index) % columns / summands;
    x *= scales[rows == 1 ? block * length + row : row * length + block];
  }
  return codes;
}

static void evaluateScaledMatmul(ScaledMatmulOp op, Evaluation &e) {
  if (op.getAccumulation())
    return evaluateAccumulated(op, e);
  const Tensor &lhs = e[op.getLhs()], &rhs = e[op.getRhs()],
               &lhsScale = e[op.getLhsScale()], &rhsScale = e[op.getRhsScale()];
  auto evaluate = [&](const Tensor &left, const Tensor &right, double scale) {
    Product product{left, right, false, true};
    product.scale = scale;
    product.factors = 2;
    if (op.getBias())
      product.bias = &e[op.getBias()];
    product.evaluate(e);
  };
  std::optional<ArrayRef<int64_t>> block = op.getBlock();
  if (!block)
    return evaluate(
        lhs, rhs, lhsScale.getFloats().front() * rhsScale.getFloats().front());
  evaluate(applyScales(lhs, lhsScale, (*block)[0], (*block)[2]),
           applyScales(rhs, rhsScale, (*block)[1], (*block)[2]), 1.0);
}

int64_t mlir::binade::countAtOnce(Operation *op) {
  return isa<MatmulOp, ScaledMatmulOp>(op) ? 64 : 1;
}

void mlir::binade::addContraction(Reference &reference) {
  reference.add<MatmulOp>(evaluateMatmul);
  reference.add<ScaledMatmulOp>(evaluateScaledMatmul);
}
