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

plan::View PlanEmitter::getRemainder(Value whole, Value piece) {
  plan::View view = getView(whole);
  view.offset += getNumElements(whole) - getNumElements(piece);
  return view;
}

bool mlir::binade::isSummand(Operation *op) {
  auto tile = dyn_cast<TileOp>(op->getParentOp());
  if (!tile || !isa<MatmulOp>(op))
    return false;
  // No other op may read the sum before it is complete.
  Operation *user = op, *yield = op->getBlock()->getTerminator();
  while (user->hasOneUse() && (user == op || isView(user)))
    user = *user->getUsers().begin();
  if (user != yield)
    return false;
  for (unsigned index = tile.getJoins(); index < tile->getNumResults(); ++index)
    if (findYielded(*op->getBlock(), index) == op->getResult(0))
      return true;
  return false;
}

LogicalResult PlanEmitter::emitTile(TileOp op) {
  for (OpResult sum : op->getResults().drop_front(op.getJoins()))
    clear(sum);
  plan::Loop loop;
  loop.count = op.getCount();
  loop.slots = storages.getSlots(op);
  {
    llvm::SaveAndRestore inside(depth, depth + 1);
    llvm::SaveAndRestore alone(isAlone, isAlone || loop.slots > 0);
    if (failed(emitPieces(
            op, op.getBody().front(), loop.body,
            [&](Value whole, Value piece) { return getPiece(whole, piece); })))
      return failure();
  }
  records->push_back({describe(op, "tile"), std::move(loop)});
  if (op.getRemainderBody().empty())
    return success();
  return emitPieces(
      op, op.getRemainderBody().front(), *records,
      [&](Value whole, Value piece) { return getRemainder(whole, piece); });
}

/// Appends the records of a body, whose pieces are where `place` says.
LogicalResult PlanEmitter::emitPieces(
    TileOp op, Block &body, std::vector<Record> &into,
    function_ref<plan::View(Value whole, Value piece)> place) {
  for (auto [index, operand] : llvm::enumerate(op.getOperands())) {
    BlockArgument argument = body.getArgument(index);
    pieces[argument] =
        index < op.getSlices() ? place(operand, argument) : getView(operand);
  }
  SmallVector<OpResult> copied;
  for (OpResult result : op->getResults()) {
    unsigned index = result.getResultNumber();
    Value base = findYielded(body, index);
    if (index < op.getJoins()) {
      if (base)
        pieces[base] = place(result, base);
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
  }
  if (failed(emit(body, into)))
    return failure();
  for (OpResult result : copied) {
    Value piece = body.getTerminator()->getOperand(result.getResultNumber());
    auto type = cast<RankedTensorType>(piece.getType());
    into.push_back({describe(op, "copy"),
                    buildCopy(getView(piece), place(result, piece), type)});
  }
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
