//===- FoldMovementIntoAttention.cpp - Movement as strides of operands ----===//
//
// Attention heads are columns that a reshape and a transpose extract, and
// query, key and value may be slices of one matmul. With strides, attention
// reads their rows in place, and writes its result in the layout of the next
// matmul.
//
//===----------------------------------------------------------------------===//

#include "../Plan/LibraryCalls.h"
#include "Strides.h"
#include "binade/IR/Interface.h"
#include "binade/Kernels/Passes.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_FOLDMOVEMENTINTOATTENTIONPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
struct FoldMovementIntoAttentionPass
    : impl::FoldMovementIntoAttentionPassBase<FoldMovementIntoAttentionPass> {
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

  /// Elides transposes of results that a record writes with strides.
  static void elideWrites(func::FuncOp program) {
    program.walk([](TransposeOp op) {
      auto source = dyn_cast<OpResult>(op.getX());
      if (source && hasStrides(source) && source.hasOneUse() &&
          op.getPermutation().back() == getTensor(source).getRank() - 1)
        elide(op);
    });
  }

  /// Elides movements that only records with strides, or views for these, read.
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
    // Ops that are no longer candidates may have been between a record and
    // others.
    while (candidates.remove_if(
        [&](Operation *op) { return !isReadByStrides(op->getResult(0)); }))
      ;
    llvm::for_each(candidates, elide);
  }
};
} // namespace
} // namespace mlir::binade
