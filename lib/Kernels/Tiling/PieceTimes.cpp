//===- PieceTimes.cpp - Predicted time of tiles on a GPU ------------------===//

#include "PieceTimes.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

/// Smaller pieces need less memory. They are worth this share of the time.
static constexpr double kTolerance = 0.02;
/// Equal pieces may be this many times as large as others.
static constexpr double kPreferEqual = 1.5;
/// Rows of pieces, if they are not equal, are multiples of this number or of 1:
/// matmuls have tiles of as many rows.
static constexpr int64_t kRowsOfTiles = 128;

static double countBytes(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type
             ? double(type.getNumElements()) * type.getElementTypeBitWidth() / 8
             : 0;
}

double PieceTimes::predictMatmul(PrecisionOpInterface op, const Rows &rows,
                                 const Part &part) const {
  RankedTensorType type = getTensor(op->getResult(0));
  MatmulShape shape = MatmulShape::get(type.getNumElements(),
                                       type.getShape().back(), *op.countMacs());
  shape.bytes = getTensor(op->getOperand(0)).getElementTypeBitWidth() / 8;
  shape.outBytes = type.getElementTypeBitWidth() / 8;
  int64_t &cut = rows.added ? shape.k : shape.m;
  cut = part.of(cut);
  if (rows.added && !part.isAlone()) {
    // Partial sums are f32.
    shape.outBytes = sizeof(float);
    shape.accumulates = true;
  }
  return costs.predictMatmul(shape);
}

double PieceTimes::predictPass(Operation *op, const Rows &rows,
                               const Part &part) const {
  double share = double(part.size) / part.all, bytes = 0;
  for (auto [operand, isCut] : llvm::zip(op->getOperands(), rows.cut))
    bytes += countBytes(operand) * (isCut ? share : 1);
  for (Value result : op->getResults())
    bytes += countBytes(result) * (rows.added ? 1 : share);
  return costs.predictPass(bytes);
}

double PieceTimes::predictPiece(const Part &part) const {
  double seconds = 0;
  for (Operation *op : region.getOps()) {
    auto kernelOp = cast<KernelOpInterface>(op);
    if (kernelOp.getSchedule() == Schedule::View || kernelOp.isRecomputed())
      continue;
    std::optional<Rows> rows = getRows(op);
    auto precisionOp = dyn_cast<PrecisionOpInterface>(op);
    seconds += precisionOp && precisionOp.countMacs()
                   ? predictMatmul(precisionOp, *rows, part)
                   : predictPass(op, *rows, part);
  }
  return seconds;
}

double PieceTimes::predict(const TileShape &shape) const {
  int64_t all = shape.countUnits();
  double seconds = shape.count * predictPiece({shape.size, all});
  return shape.remainder > 0 ? seconds + predictPiece({shape.remainder, all})
                             : seconds;
}

TileShape PieceTimes::choose(int64_t most) const {
  int64_t length = region.getLength().value_or(1);
  std::vector<std::pair<TileShape, double>> times;
  double best = std::numeric_limits<double>::infinity();
  for (int64_t count = 2; count <= std::min(most, length); ++count)
    for (int64_t multiple : {int64_t(1), kRowsOfTiles}) {
      TileShape shape = TileShape::divide(length, count, multiple);
      if (shape.countUnits() == 1 || (multiple > 1 && shape.remainder == 0))
        continue;
      times.emplace_back(shape, predict(shape));
      best = std::min(best, times.back().second);
    }
  // The share of the rows that a piece has.
  auto getShare = [](const TileShape &shape) {
    return double(shape.size) / shape.countUnits();
  };
  TileShape smallest, equal;
  for (const auto &[shape, seconds] : times) {
    if (seconds > (1 + kTolerance) * best)
      continue;
    if (getShare(shape) < getShare(smallest))
      smallest = shape;
    if (shape.remainder == 0 && getShare(shape) < getShare(equal))
      equal = shape;
  }
  return getShare(equal) <= kPreferEqual * getShare(smallest) ? equal
                                                              : smallest;
}
