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
/// Whether `op` only moves elements, within rows that a tile does not split.
bool movesWithin(Operation *op, const TileShape &shape) {
  if (!isMovement(op))
    return false;
  std::optional<Rows> rows = cast<KernelOpInterface>(op).getRows();
  auto isDivided = [&](Value value) {
    return shape.getPiece(value.getType()) != nullptr;
  };
  return rows && !rows->added && llvm::all_of(rows->cut, llvm::identity()) &&
         llvm::all_of(op->getOperands(), isDivided) &&
         llvm::all_of(op->getResults(), isDivided);
}

/// The types of pieces in one of the bodies of a tile.
struct Pieces {
  TileShape shape;
  bool isRemainder;

  RankedTensorType getType(Value whole) const {
    return shape.getPiece(whole.getType(), isRemainder);
  }
  /// Clones `op` for pieces of its operands, which `mapping` maps.
  Value clone(OpBuilder &b, Operation *op, IRMapping &mapping) const {
    Operation *piece = b.clone(*op, mapping);
    piece->getResult(0).setType(getType(op->getResult(0)));
    return piece->getResult(0);
  }
};

/// Computes operand `index` of a body by `producer` from pieces of its operand
/// `source`: a new one, or that of operand `same`.
void moveInto(Block &body, unsigned index, Operation *producer,
              std::optional<unsigned> same, const Pieces &pieces) {
  BlockArgument piece = body.getArgument(index);
  Value source = producer->getOperand(0);
  BlockArgument of =
      same ? body.getArgument(*same)
           : body.insertArgument(index, pieces.getType(source), piece.getLoc());
  IRMapping mapping;
  mapping.map(source, of);
  OpBuilder b = OpBuilder::atBlockBegin(&body);
  piece.replaceAllUsesWith(pieces.clone(b, producer, mapping));
  body.eraseArgument(piece.getArgNumber());
}

/// Moves the producer of operand `index` into the tile.
bool moveProducerInside(TileOp tile, unsigned index) {
  Value operand = tile.getOperands()[index];
  Operation *producer = operand.getDefiningOp();
  auto isTile = [&](Operation *user) { return user == tile; };
  if (!movesWithin(producer, tile.getShape()) ||
      producer->getNumOperands() != 1 ||
      !llvm::all_of(operand.getUsers(), isTile) ||
      llvm::count(tile.getOperands(), operand) != 1)
    return false;
  Value source = producer->getOperand(0);
  ValueRange slices = tile.getOperands().take_front(tile.getSlices());
  auto found = llvm::find(slices, source);
  std::optional<unsigned> same;
  if (found != slices.end())
    same = std::distance(slices.begin(), found);
  for (auto [number, body] : llvm::enumerate(tile.getBodies()))
    moveInto(*body, index, producer, same, {tile.getShape(), number > 0});
  if (same) {
    tile->eraseOperand(index);
    tile.setSlices(tile.getSlices() - 1);
  } else {
    tile->setOperand(index, source);
  }
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
  return movesWithin(consumer, tile.getShape()) &&
                 llvm::all_of(consumer->getOperands(), isOwn)
             ? consumer
             : nullptr;
}

/// Moves `consumer` into the tile, whose results it replaces. Returns the tile
/// that replaces `tile`.
TileOp moveConsumerInside(TileOp tile, Operation *consumer) {
  SmallVector<OpResult> kept;
  for (OpResult result : tile->getResults())
    if (!llvm::is_contained(consumer->getOperands(), result))
      kept.push_back(result);
  for (auto [number, body] : llvm::enumerate(tile.getBodies())) {
    Operation *yield = body->getTerminator();
    auto getYielded = [&](Value result) {
      return yield->getOperand(cast<OpResult>(result).getResultNumber());
    };
    IRMapping mapping;
    for (Value operand : consumer->getOperands())
      mapping.map(operand, getYielded(operand));
    OpBuilder inside(yield);
    Pieces pieces{tile.getShape(), number > 0};
    SmallVector<Value> yielded = {pieces.clone(inside, consumer, mapping)};
    llvm::append_range(yielded, llvm::map_range(kept, getYielded));
    yield->setOperands(yielded);
  }
  SmallVector<Value> results = {consumer->getResult(0)};
  llvm::append_range(results, kept);

  OpBuilder b(tile);
  int64_t joins = tile.getJoins() + 1 - consumer->getNumOperands();
  auto grown =
      tile.cloneWithoutBodies(b, ValueRange(results).getTypes(), joins);
  setPhase(grown, getPhase(tile));
  grown.takeBodies(tile);
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
