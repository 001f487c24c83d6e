//===- MoveSaves.cpp - Keep a value once, not its rearranged copies -------===//
// Slices and transposes of one value that the backward part reads, as queries,
// keys and values are of one product, hold the same numbers again. The value is
// kept instead, and they are made once more from it; or, where a copy with all
// its elements is kept anyway, the value is made from that.
//===----------------------------------------------------------------------===//

#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/Kernels/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_MOVESAVESPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
/// A value that is kept, and the movements that lead to it, first to last.
struct Kept {
  Value value; ///< Of the save.
  SmallVector<Operation *> steps;

  bool isCopied() const { return !llvm::all_of(steps, isView); }
  /// Whether the root can be made from it.
  bool hasAllElements() const {
    return llvm::all_of(steps, [&](Operation *step) {
      return getNumElements(step->getOperand(0)) ==
             getNumElements(step->getResult(0));
    });
  }
};

/// Gives what is inserted the phase in which it is needed.
struct BackwardMarker : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    setPhase(op, Phase::Backward);
  }
};

class Mover {
public:
  Mover(Value root, ArrayRef<Kept> all) : root(root), all(all) {}

  void run() {
    const Kept *copy = llvm::find_if(all, [](const Kept &kept) {
      return kept.isCopied() && kept.hasAllElements();
    });
    bool isRootKept =
        llvm::any_of(all, [](const Kept &kept) { return !kept.isCopied(); });
    if (isa<BlockArgument>(root)) {
      replace([&](ImplicitLocOpBuilder &) { return root; }, nullptr);
    } else if (isRootKept && copy != all.end()) {
      replace([&](ImplicitLocOpBuilder &b) { return goBack(b, *copy); }, copy);
    } else if (isRootKept || getCopiedElements() >= getNumElements(root)) {
      OpBuilder b(root.getContext());
      b.setInsertionPointAfterValue(root);
      Value save = SaveOp::create(b, root.getLoc(), root);
      replace([&](ImplicitLocOpBuilder &) { return save; }, nullptr);
    }
  }

private:
  int64_t getCopiedElements() const {
    if (llvm::count_if(all, [](const Kept &k) { return k.isCopied(); }) < 2)
      return 0;
    int64_t sum = 0;
    for (const Kept &kept : all)
      sum += kept.isCopied() ? getNumElements(kept.value) : 0;
    return sum;
  }

  /// The root from what is kept. The adjoint of a movement that loses nothing
  /// is its inverse.
  static Value goBack(ImplicitLocOpBuilder &b, const Kept &kept) {
    Value value = kept.value;
    for (Operation *step : llvm::reverse(kept.steps))
      value =
          cast<DifferentiableOpInterface>(step).buildAdjoint(b, value).front();
    return value;
  }

  /// Makes all that is kept, but `source`, from what `getRoot` gives, before
  /// the first op that reads it.
  void replace(function_ref<Value(ImplicitLocOpBuilder &)> getRoot,
               const Kept *source) {
    for (const Kept &kept : all) {
      auto save = kept.value.getDefiningOp<SaveOp>();
      Operation *first = findFirstUser(save);
      if (&kept == source || !first)
        continue;
      if (source && first->isBeforeInBlock(source->value.getDefiningOp()))
        continue; // Read before that is kept.
      BackwardMarker marker;
      ImplicitLocOpBuilder b(save.getLoc(), first);
      b.setListener(&marker);
      IRMapping again;
      again.map(root, getRoot(b));
      for (Operation *step : kept.steps)
        b.clone(*step, again);
      save.replaceAllUsesWith(again.lookup(save.getX()));
      save.erase();
    }
  }

  Value root;
  ArrayRef<Kept> all;
};

struct MoveSavesPass : impl::MoveSavesPassBase<MoveSavesPass> {
  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>(kStepName);
    if (!step)
      return;
    llvm::MapVector<Value, SmallVector<Kept>> byRoot;
    for (auto save : step.front().getOps<SaveOp>()) {
      if (save.getX().getType() != save.getType())
        continue; // Its format is part of what is kept.
      Kept kept{save, {}};
      Value root = save.getX();
      for (; isMovement(root.getDefiningOp()) &&
             root.getDefiningOp()->getNumOperands() == 1;
           root = root.getDefiningOp()->getOperand(0))
        kept.steps.push_back(root.getDefiningOp());
      if (root.getDefiningOp<SaveOp>())
        continue; // It is made from what is kept.
      std::reverse(kept.steps.begin(), kept.steps.end());
      byRoot[root].push_back(std::move(kept));
    }
    for (auto &[root, all] : byRoot)
      if (llvm::any_of(all, [](const Kept &kept) { return kept.isCopied(); }))
        Mover(root, all).run();
  }
};
} // namespace
} // namespace mlir::binade
