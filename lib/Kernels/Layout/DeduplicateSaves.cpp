//===- DeduplicateSaves.cpp - Save a value instead of its permutations ----===//
//
// The backward pass may read several slices and transposes of one value, such
// as query, key and value of one matmul, which contain the same elements.
// Instead, the value is saved, and they are recomputed from it; or, if a copy
// with all its elements is saved anyway, the value is recomputed from that
// copy.
//
//===----------------------------------------------------------------------===//

#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/Kernels/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_DEDUPLICATESAVESPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
/// A saved value, and the movements from the root to it, in order.
struct Kept {
  Value value; ///< Result of the save.
  SmallVector<Operation *> steps;

  bool isCopied() const { return !llvm::all_of(steps, isView); }
  /// Whether the root can be recomputed from it.
  bool hasAllElements() const {
    return llvm::all_of(steps, [&](Operation *step) {
      return getNumElements(step->getOperand(0)) ==
             getNumElements(step->getResult(0));
    });
  }
};

/// Sets the phase of inserted ops to backward, where they are needed.
struct BackwardMarker : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    setPhase(op, Phase::Backward);
  }
};

/// Replaces the saves of permutations of one root.
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
      replace([&](ImplicitLocOpBuilder &b) { return recomputeRoot(b, *copy); },
              copy);
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

  /// Recomputes the root from a saved value. The adjoint of a movement that
  /// drops no element is its inverse.
  static Value recomputeRoot(ImplicitLocOpBuilder &b, const Kept &kept) {
    Value value = kept.value;
    for (Operation *step : llvm::reverse(kept.steps))
      value =
          cast<DifferentiableOpInterface>(step).buildAdjoint(b, value).front();
    return value;
  }

  /// Recomputes all saved values but `source` from the root that `getRoot`
  /// returns, before their first user.
  void replace(function_ref<Value(ImplicitLocOpBuilder &)> getRoot,
               const Kept *source) {
    for (const Kept &kept : all) {
      auto save = kept.value.getDefiningOp<SaveOp>();
      Operation *first = findFirstUser(save);
      if (&kept == source || !first)
        continue;
      if (source && first->isBeforeInBlock(source->value.getDefiningOp()))
        continue; // It is read before `source` is saved.
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

struct DeduplicateSavesPass
    : impl::DeduplicateSavesPassBase<DeduplicateSavesPass> {
  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>(kStepName);
    if (!step)
      return;
    llvm::MapVector<Value, SmallVector<Kept>> byRoot;
    for (auto save : step.front().getOps<SaveOp>()) {
      if (save.getX().getType() != save.getType())
        continue; // It is saved in another format.
      Kept kept{save, {}};
      Value root = save.getX();
      for (; isMovement(root.getDefiningOp()) &&
             root.getDefiningOp()->getNumOperands() == 1;
           root = root.getDefiningOp()->getOperand(0))
        kept.steps.push_back(root.getDefiningOp());
      if (root.getDefiningOp<SaveOp>())
        continue; // It is computed from a saved value.
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
