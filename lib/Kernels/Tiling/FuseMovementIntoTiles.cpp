//===- FuseMovementIntoTiles.cpp - Movement inside tiles ------------------===//
//
// Slices and transposes that produce an operand of a tile, or that consume its
// result, can be applied to each piece instead: the copies are then small, stay
// in a cache, and take no pass over memory of their own.
//
//===----------------------------------------------------------------------===//

#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/Kernels/Passes.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::binade {
#define GEN_PASS_DEF_FUSEMOVEMENTINTOTILESPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
bool divides(int64_t count, Value value) {
  return TileOp::getPiece(value.getType(), count) != nullptr;
}

/// Whether `op` only moves elements, within rows that a tile of `count` pieces
/// does not split.
bool movesWithin(Operation *op, int64_t count) {
  if (!isMovement(op))
    return false;
  std::optional<Rows> rows = cast<KernelOpInterface>(op).getRows();
  auto isDivided = [&](Value value) { return divides(count, value); };
  return rows && !rows->added && llvm::all_of(rows->cut, llvm::identity()) &&
         llvm::all_of(op->getOperands(), isDivided) &&
         llvm::all_of(op->getResults(), isDivided);
}

/// Clones `op` for pieces of its operands, which `pieces` maps.
Value clonePiece(OpBuilder &b, Operation *op, IRMapping &pieces,
                 int64_t count) {
  Operation *piece = b.clone(*op, pieces);
  piece->getResult(0).setType(
      TileOp::getPiece(op->getResult(0).getType(), count));
  return piece->getResult(0);
}

/// Moves the producer of operand `index` into the tile.
bool moveProducerInside(TileOp tile, unsigned index) {
  Value operand = tile.getOperands()[index];
  Operation *producer = operand.getDefiningOp();
  auto isTile = [&](Operation *user) { return user == tile; };
  if (!movesWithin(producer, tile.getCount()) ||
      producer->getNumOperands() != 1 ||
      !llvm::all_of(operand.getUsers(), isTile) ||
      llvm::count(tile.getOperands(), operand) != 1)
    return false;
  Block &body = tile.getBody().front();
  Value source = producer->getOperand(0);
  BlockArgument piece = body.getArgument(index);
  ValueRange slices = tile.getOperands().take_front(tile.getSlices());
  auto same = llvm::find(slices, source);
  bool isNew = same == slices.end();
  BlockArgument of = piece;
  if (isNew) {
    of = body.insertArgument(
        index, TileOp::getPiece(source.getType(), tile.getCount()),
        piece.getLoc());
    tile->setOperand(index, source);
  } else {
    of = body.getArgument(std::distance(slices.begin(), same));
    tile->eraseOperand(index);
    tile.setSlices(tile.getSlices() - 1);
  }
  IRMapping pieces;
  pieces.map(source, of);
  OpBuilder b = OpBuilder::atBlockBegin(&body);
  piece.replaceAllUsesWith(clonePiece(b, producer, pieces, tile.getCount()));
  body.eraseArgument(piece.getArgNumber());
  producer->erase();
  return true;
}

/// Returns the only user of the joined result, if it is a movement that reads
/// only such results.
Operation *findConsumer(TileOp tile, OpResult result) {
  if (result.getResultNumber() >= tile.getJoins() || !result.hasOneUse())
    return nullptr;
  Operation *consumer = *result.getUsers().begin();
  auto isOwn = [&](Value operand) {
    return operand.getDefiningOp() == tile && operand.hasOneUse() &&
           cast<OpResult>(operand).getResultNumber() < tile.getJoins();
  };
  return movesWithin(consumer, tile.getCount()) &&
                 llvm::all_of(consumer->getOperands(), isOwn)
             ? consumer
             : nullptr;
}

/// Moves `consumer` into the tile, whose results it replaces. Returns the tile
/// that replaces `tile`.
TileOp moveConsumerInside(TileOp tile, Operation *consumer) {
  Operation *yield = tile.getYield();
  IRMapping pieces;
  for (Value operand : consumer->getOperands())
    pieces.map(operand,
               yield->getOperand(cast<OpResult>(operand).getResultNumber()));
  OpBuilder inside(yield);
  SmallVector<Value> yielded = {
      clonePiece(inside, consumer, pieces, tile.getCount())};
  SmallVector<Value> results = {consumer->getResult(0)};
  for (OpResult result : tile->getResults())
    if (!llvm::is_contained(consumer->getOperands(), result)) {
      yielded.push_back(yield->getOperand(result.getResultNumber()));
      results.push_back(result);
    }
  yield->setOperands(yielded);

  OpBuilder b(tile);
  int64_t joins = tile.getJoins() + 1 - consumer->getNumOperands();
  auto grown = TileOp::create(b, tile.getLoc(), ValueRange(results).getTypes(),
                              tile.getOperands(), tile.getCount(),
                              tile.getSlices(), joins);
  setPhase(grown, getPhase(tile));
  grown.getBody().takeBody(tile.getBody());
  for (auto [from, to] : llvm::zip(results, grown.getResults()))
    from.replaceAllUsesWith(to);
  consumer->erase();
  tile.erase();
  return grown;
}

void grow(TileOp tile) {
  for (unsigned index = 0; index < tile.getSlices();)
    if (!moveProducerInside(tile, index))
      ++index;
  for (unsigned index = 0; index < tile->getNumResults();) {
    Operation *consumer = findConsumer(tile, tile->getResult(index));
    if (consumer)
      tile = moveConsumerInside(tile, consumer);
    index = consumer ? 0 : index + 1;
  }
}

struct FuseMovementIntoTilesPass
    : impl::FuseMovementIntoTilesPassBase<FuseMovementIntoTilesPass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      for (auto tile :
           llvm::make_early_inc_range(program.front().getOps<TileOp>()))
        grow(tile);
  }
};
} // namespace
} // namespace mlir::binade
