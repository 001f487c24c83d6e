//===- PieceTimes.cpp - Predicted time of tiles on a GPU ------------------===//

#include "PieceTimes.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

/// More pieces need less memory. They are worth this share of the time.
static constexpr double kTolerance = 0.02;

static double countBytes(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type
             ? double(type.getNumElements()) * type.getElementTypeBitWidth() / 8
             : 0;
}

double PieceTimes::predictMatmul(PrecisionOpInterface op, const Rows &rows,
                                 int64_t pieces) const {
  RankedTensorType type = getTensor(op->getResult(0));
  int64_t elements = type.getNumElements();
  MatmulShape shape;
  shape.n = type.getShape().back();
  shape.m = elements / shape.n;
  shape.k = *op.countMacs() / elements;
  shape.bytes = getTensor(op->getOperand(0)).getElementTypeBitWidth() / 8;
  shape.outBytes = type.getElementTypeBitWidth() / 8;
  (rows.added ? shape.k : shape.m) /= pieces;
  if (rows.added && pieces > 1) {
    // Partial sums are f32.
    shape.outBytes = sizeof(float);
    shape.accumulates = true;
  }
  return pieces * costs.predictMatmul(shape);
}

double PieceTimes::predictPass(Operation *op, const Rows &rows,
                               int64_t pieces) const {
  double bytes = 0;
  for (auto [operand, isCut] : llvm::zip(op->getOperands(), rows.cut))
    bytes += countBytes(operand) / (isCut ? pieces : 1);
  for (Value result : op->getResults())
    bytes += countBytes(result) / (rows.added ? 1 : pieces);
  return pieces * costs.predictPass(bytes);
}

double PieceTimes::predict(int64_t pieces) const {
  double seconds = 0;
  for (Operation *op : region.getOps()) {
    auto kernelOp = cast<KernelOpInterface>(op);
    if (kernelOp.getSchedule() == Schedule::View || kernelOp.isRecomputed())
      continue;
    std::optional<Rows> rows = getRows(op);
    auto precisionOp = dyn_cast<PrecisionOpInterface>(op);
    seconds += precisionOp && precisionOp.countMacs()
                   ? predictMatmul(precisionOp, *rows, pieces)
                   : predictPass(op, *rows, pieces);
  }
  return seconds;
}

int64_t PieceTimes::choose(int64_t most) const {
  int64_t length = region.getLength().value_or(1);
  SmallVector<std::pair<int64_t, double>> times;
  double best = std::numeric_limits<double>::infinity();
  for (int64_t pieces = 2; pieces <= std::min(most, length); ++pieces)
    if (length % pieces == 0) {
      times.emplace_back(pieces, predict(pieces));
      best = std::min(best, times.back().second);
    }
  int64_t found = 1;
  for (auto [pieces, seconds] : times)
    if (seconds <= (1 + kTolerance) * best)
      found = pieces;
  return found;
}
