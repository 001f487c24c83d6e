//===- EmitTile.cpp - Tiles as loops over records -------------------------===//

#include "../Layout/Strides.h"
#include "PlanEmitter.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;

plan::View PlanEmitter::getPiece(Value whole, Value piece) {
  plan::View view = getView(whole);
  view.steps.resize(depth - 1, 0);
  view.steps.push_back(getNumElements(piece));
  return view;
}

bool mlir::binade::isSummand(Operation *op) {
  auto tile = dyn_cast<TileOp>(op->getParentOp());
  if (!tile || !isa<MatmulOp>(op))
    return false;
  // No other op may read the sum before it is complete.
  Operation *user = op;
  while (user->hasOneUse() && (user == op || isView(user)))
    user = *user->getUsers().begin();
  if (user != tile.getYield())
    return false;
  for (unsigned index = tile.getJoins(); index < tile->getNumResults(); ++index)
    if (findYielded(tile, index) == op->getResult(0))
      return true;
  return false;
}

LogicalResult PlanEmitter::emitTile(TileOp op) {
  Block &body = op.getBody().front();
  ++depth;
  for (auto [index, operand] : llvm::enumerate(op.getOperands())) {
    BlockArgument argument = body.getArgument(index);
    pieces[argument] =
        index < op.getSlices() ? getPiece(operand, argument) : getView(operand);
  }
  SmallVector<OpResult> copied;
  for (OpResult result : op->getResults()) {
    unsigned index = result.getResultNumber();
    Value base = findYielded(op, index);
    if (index < op.getJoins()) {
      if (base)
        pieces[base] = getPiece(result, base);
      else
        copied.push_back(result);
      continue;
    }
    if (!base || !isSummand(base.getDefiningOp()))
      return op.emitOpError("yields value ")
             << index
             << " to be summed over the iterations; expected the result of a "
                "matmul "
                "without other users";
    pieces[base] = getView(result);
    clear(result);
  }
  plan::Loop loop;
  loop.count = op.getCount();
  loop.slots = storages.getSlots(op);
  {
    llvm::SaveAndRestore alone(isAlone, isAlone || loop.slots > 0);
    if (failed(emit(body, loop.body)))
      return failure();
  }
  for (OpResult result : copied) {
    Value piece = op.getYield()->getOperand(result.getResultNumber());
    auto type = cast<RankedTensorType>(piece.getType());
    loop.body.push_back(
        {describe(op, "copy"),
         buildCopy(getView(piece), getPiece(result, piece), type)});
  }
  --depth;
  records->push_back({describe(op, "tile"), std::move(loop)});
  return success();
}

/// Clears `sum` by copies of a zero.
void PlanEmitter::clear(Value sum) {
  if (!zero) {
    zero = storages.addScratch(sizeof(float), step, plan::Category::Constant,
                               /*persistent=*/true);
  }
  plan::Copy copy;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(sum.getType()).getShape();
  copy.from = {getZero(), 0, std::vector<int64_t>(shape.size(), 0), {}};
  copy.to = getView(sum);
  copy.to.strides = getStrides(shape);
  copy.sizes = std::vector<int64_t>(shape);
  records->push_back({"clear", std::move(copy)});
}
