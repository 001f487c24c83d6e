//===- ElideMovement.cpp - Slices and transposes as strides ---------------===//
// Heads are made of columns by a reshape and a transpose, and query, key and
// value may be slices of one product. Attention reads their rows where they
// are, and writes its own to where the next product wants them.
//===----------------------------------------------------------------------===//

#include "../Plan/LibraryCalls.h"
#include "Strides.h"
#include "binade/IR/Interface.h"
#include "binade/Kernels/Passes.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_ELIDEMOVEMENTPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
struct ElideMovementPass : impl::ElideMovementPassBase<ElideMovementPass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation())) {
      elideWrites(program);
      elideReads(program);
    }
  }

private:
  static void elide(Operation *op) {
    op->setAttr(kElidedAttr, UnitAttr::get(op->getContext()));
  }

  /// Transposes of what records write.
  static void elideWrites(func::FuncOp program) {
    program.walk([](TransposeOp op) {
      auto source = dyn_cast<OpResult>(op.getX());
      if (source && hasStrides(source) && source.hasOneUse() &&
          op.getPermutation().back() == getTensor(source).getRank() - 1)
        elide(op);
    });
  }

  /// What records alone read, or views that they alone read.
  static void elideReads(func::FuncOp program) {
    llvm::SmallSetVector<Operation *, 16> candidates;
    program.walk([&](Operation *op) {
      if (isStrided(op))
        candidates.insert(op);
    });
    auto mayElide = [&](Operation *op) {
      return isElided(op) || candidates.contains(op);
    };
    std::function<bool(Value)> isReadByStrides = [&](Value value) {
      return llvm::all_of(value.getUses(), [&](OpOperand &use) {
        Operation *user = use.getOwner();
        if (hasStrides(use)) {
          std::optional<Strided> strided = findStrides(value, mayElide);
          return strided && strided->strides.back() == 1;
        }
        bool isPassedOn =
            candidates.contains(user) || (isView(user) && isMovement(user));
        return isPassedOn && isReadByStrides(user->getResult(0));
      });
    };
    // What is no candidate any more may have been between a record and others.
    while (candidates.remove_if(
        [&](Operation *op) { return !isReadByStrides(op->getResult(0)); }))
      ;
    llvm::for_each(candidates, elide);
  }
};
} // namespace
} // namespace mlir::binade
