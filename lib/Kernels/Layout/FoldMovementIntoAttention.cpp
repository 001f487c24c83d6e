//===- FoldMovementIntoAttention.cpp - Movement as strides of operands ----===//
//
// A reshape and a transpose split the columns of a matmul into heads, and
// query, key and value may be slices of one matmul. With strides, attention
// reads their rows in place, and writes its result in the layout that the next
// matmul reads. The elements of a row must stay contiguous.
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

  /// Elides a transpose that is the only reader of a result of attention, so
  /// that attention writes the transposed tensor.
  static void elideWrites(func::FuncOp program) {
    program.walk([](Operation *op) {
      for (OpResult result : op->getResults()) {
        TransposeOp transpose =
            hasStrides(result) ? findTransposeOf(result) : TransposeOp();
        if (!transpose)
          continue;
        auto strides = findWriteStrides(result, transpose);
        if (strides && strides->back() == 1)
          elide(transpose);
      }
    });
  }

  /// Elides slices and transposes that only attention reads, directly or
  /// through views and other such ops.
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
        bool isMovedOnly =
            candidates.contains(user) || (isView(user) && isMovement(user));
        return isMovedOnly && isReadByStrides(user->getResult(0));
      });
    };
    // Without a candidate, those before it get another reader, and those after
    // it other strides.
    while (candidates.remove_if(
        [&](Operation *op) { return !isReadByStrides(op->getResult(0)); }))
      ;
    llvm::for_each(candidates, elide);
  }
};
} // namespace
} // namespace mlir::binade
