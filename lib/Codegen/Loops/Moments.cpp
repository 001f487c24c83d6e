//===- Moments.cpp - Sum and variance in one pass -------------------------===//

#include "Moments.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

/// Whether `value` is `sum` divided by `count`.
static bool isMean(Value value, Value sum, int64_t count) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumOperands() != 2)
    return false;
  auto hasValue = [&](Value x, double number) {
    DenseElementsAttr elements;
    return matchPattern(x, m_Constant(&elements)) && elements.isSplat() &&
           elements.getSplatValue<APFloat>().convertToDouble() == number;
  };
  double share = static_cast<float>(1.0 / count);
  for (unsigned side : {0, 1})
    if (isa<MulOp>(op) && op->getOperand(side) == sum &&
        hasValue(op->getOperand(1 - side), share))
      return true;
  return isa<DivOp>(op) && op->getOperand(0) == sum &&
         hasValue(op->getOperand(1), static_cast<double>(count));
}

std::optional<Moments>
mlir::binade::findMoments(Reduction squares, ArrayRef<Reduction> reductions) {
  if (!isa<ReduceSumOp>(squares.op) || !squares.getPartialType().isF32())
    return std::nullopt;
  auto product = squares.getInput().getDefiningOp<MulOp>();
  if (!product || product.getLhs() != product.getRhs())
    return std::nullopt;
  auto centred = product.getLhs().getDefiningOp<SubOp>();
  auto broadcast =
      centred ? centred.getRhs().getDefiningOp<BroadcastOp>() : nullptr;
  if (!broadcast)
    return std::nullopt;
  for (Reduction sum : reductions)
    if (isa<ReduceSumOp>(sum.op) && sum.getInput() == centred.getLhs() &&
        isMean(broadcast.getX(), sum.getResult(), sum.getLoops().getReduced()))
      return Moments{sum, squares, sum.getInput()};
  return std::nullopt;
}
