//===- Embedding.cpp - Lookups of table rows ------------------------------===//

#include "Families.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Returns the row of index number `position`; negative indices count from the
/// end.
static FailureOr<int64_t> resolveIndex(Operation *op, const Tensor &indices,
                                       int64_t position, int64_t rows) {
  int64_t index = indices.getIntegers()[position];
  if (index < -rows || index >= rows)
    return op->emitOpError("index ")
           << index << " at position " << position
           << " is not a row of the table, which has " << rows;
  return index < 0 ? index + rows : index;
}

static int64_t getRowLength(const Tensor &table) {
  return ShapedType::getNumElements(table.getShape().drop_front());
}

static LogicalResult evaluateGather(GatherOp op, Evaluation &e) {
  const Tensor &table = e[op.getTable()], &indices = e[op.getIndices()];
  Tensor &y = e.result();
  int64_t length = getRowLength(table);
  for (int64_t i = 0, count = indices.getNumElements(); i < count; ++i) {
    FailureOr<int64_t> row = resolveIndex(op, indices, i, table.getDimSize(0));
    if (failed(row))
      return failure();
    if (y.isFloat())
      llvm::copy(table.getFloats().slice(*row * length, length),
                 y.getFloats().begin() + i * length);
    else
      llvm::copy(table.getIntegers().slice(*row * length, length),
                 y.getIntegers().begin() + i * length);
  }
  return success();
}

static LogicalResult evaluateGatherGrad(GatherGradOp op, Evaluation &e) {
  const Tensor &gradient = e[op.getGradient()], &indices = e[op.getIndices()];
  Tensor &dtable = e.result();
  int64_t length = getRowLength(dtable), rows = dtable.getDimSize(0);
  std::vector<double> magnitudes(dtable.getNumElements());
  std::vector<int64_t> terms(rows);
  for (int64_t i = 0, count = indices.getNumElements(); i < count; ++i) {
    FailureOr<int64_t> row = resolveIndex(op, indices, i, rows);
    if (failed(row))
      return failure();
    ++terms[*row];
    for (int64_t j = 0; j < length; ++j) {
      double term = gradient[i * length + j];
      dtable[*row * length + j] += term;
      magnitudes[*row * length + j] += std::fabs(term);
    }
  }
  // A row with one term is copied, which is exact.
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t j = row * length; terms[row] > 1 && j < (row + 1) * length;
         ++j)
      e.setError(0, j,
                 e.getRoundoff() * getSumConstant(terms[row]) * magnitudes[j]);
  return success();
}

static LogicalResult evaluateCheckIndex(CheckIndexOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  auto low = static_cast<int64_t>(op.getLow()),
       high = static_cast<int64_t>(op.getHigh());
  for (auto [position, index] : llvm::enumerate(x.getIntegers())) {
    bool isIgnored =
        op.getIgnored() && index == static_cast<int64_t>(*op.getIgnored());
    if (!isIgnored && (index < low || index >= high))
      return op->emitOpError("index ")
             << index << " at position " << position << " is outside of ["
             << low << ", " << high << ")";
  }
  llvm::copy(x.getIntegers(), e.result().getIntegers().begin());
  return success();
}

void mlir::binade::addEmbedding(Reference &reference) {
  reference.add<GatherOp>(evaluateGather);
  reference.add<GatherGradOp>(evaluateGatherGrad);
  reference.add<CheckIndexOp>(evaluateCheckIndex);
}
