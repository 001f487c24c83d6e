//===- FoldEmpty.cpp - Remove ops on tensors without elements -------------===//

#include "PhaseKeeper.h"
#include "binade/IR/Interface.h"
#include "binade/Kernels/Passes.h"
#include "llvm/ADT/BitVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_FOLDEMPTYPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
/// Replaces ops on empty tensors by ops without them.
class Folder {
public:
  explicit Folder(Location location) : b(location, location.getContext()) {
    b.setListener(&keeper);
  }

  /// Folds the ops of `block` in [first, last), in order, so that the ops that
  /// replace an op are folded before its users.
  LogicalResult fold(Block &block, Block::iterator first,
                     Block::iterator last) {
    while (first != last)
      if (failed(fold(&*first++)))
        return failure();
    return success();
  }

  bool hasFolded = false;

private:
  LogicalResult fold(Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (failed(fold(block, block.begin(), block.end())))
          return failure();
    if (isa<ConstantOp>(op) || op->getNumResults() == 0 ||
        !isMemoryEffectFree(op))
      return success();
    b.setInsertionPoint(op);
    b.setLoc(op->getLoc());
    keeper.phase = getPhase(op);
    if (llvm::all_of(op->getResultTypes(), hasNoElements)) {
      replace(op, llvm::map_to_vector(op->getResultTypes(), [&](Type type) {
                return getEmpty(op, type);
              }));
      return success();
    }
    if (auto tile = dyn_cast<TileOp>(op)) {
      dropEmptyResults(tile);
      return success();
    }
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    if (!kernelOp || llvm::none_of(op->getOperandTypes(), hasNoElements))
      return success();
    Block &block = *op->getBlock();
    Operation *before = op->getPrevNode();
    FailureOr<SmallVector<Value>> values = kernelOp.buildWithoutElements(b);
    if (failed(values))
      return failure();
    Block::iterator last = std::next(op->getIterator());
    replace(op, *values);
    return fold(
        block, before ? std::next(before->getIterator()) : block.begin(), last);
  }

  /// Returns an empty tensor of `type` to replace a result of `op`: an operand
  /// if one has this type, because all such tensors are equal, otherwise a
  /// constant.
  Value getEmpty(Operation *op, Type type) {
    for (Value operand : op->getOperands())
      if (operand.getType() == type)
        return operand;
    return buildZeros(b, type).front();
  }

  void dropEmptyResults(TileOp tile) {
    llvm::BitVector dropped(tile->getNumResults());
    SmallVector<Type> types;
    int64_t joins = 0;
    for (OpResult result : tile->getResults()) {
      if (hasNoElements(result.getType())) {
        dropped.set(result.getResultNumber());
        continue;
      }
      types.push_back(result.getType());
      joins += result.getResultNumber() < tile.getJoins();
    }
    if (dropped.none())
      return;
    for (Block *body : tile.getBodies())
      body->getTerminator()->eraseOperands(dropped);
    TileOp kept = tile.cloneWithoutBodies(b, types, joins);
    kept.takeBodies(tile);
    SmallVector<Value> values;
    auto next = kept->result_begin();
    for (OpResult result : tile->getResults())
      values.push_back(dropped[result.getResultNumber()]
                           ? getEmpty(tile, result.getType())
                           : *next++);
    replace(tile, values);
  }

  void replace(Operation *op, ValueRange values) {
    op->replaceAllUsesWith(values);
    op->erase();
    hasFolded = true;
  }

  PhaseKeeper keeper;
  ImplicitLocOpBuilder b;
};

struct FoldEmptyPass : impl::FoldEmptyPassBase<FoldEmptyPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      Block &body = function.front();
      Folder folder(function.getLoc());
      if (failed(folder.fold(body, body.begin(), body.end())))
        return signalPassFailure();
      if (folder.hasFolded)
        eraseDead(body);
    }
  }

private:
  /// Erases ops that only erased ops used.
  static void eraseDead(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (isOpTriviallyDead(&op))
        op.erase();
      else
        for (Region &region : op.getRegions())
          for (Block &inner : region)
            eraseDead(inner);
    }
  }
};
} // namespace
} // namespace mlir::binade
