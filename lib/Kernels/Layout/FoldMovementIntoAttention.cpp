//===- FoldMovementIntoAttention.cpp - Movement as strides of operands ----===//
//
// A reshape and a transpose split the columns of a matmul into heads, and
// query, key and value may be slices of one matmul. With strides, attention
// reads their rows in place, and writes its result in the layout that the next
// matmul reads, and gradients into their concatenation. The elements of a row
// must stay contiguous.
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
      elideConcatenations(program);
      elideReads(program);
    }
  }

private:
  static void elide(Operation *op) {
    op->setAttr(kElidedAttr, UnitAttr::get(op->getContext()));
  }

  /// Returns the result of attention that `value` is, or whose only reader
  /// makes `value` of it, through views; null for other values.
  static Value findWritten(Value value) {
    while (value.hasOneUse() && isView(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    auto result = dyn_cast<OpResult>(value);
    return result && value.hasOneUse() && hasStrides(result) ? value : Value();
  }

  /// Elides a transpose that is the only reader of a result of attention, so
  /// that attention writes the transposed tensor.
  static void elideWrites(func::FuncOp program) {
    program.walk([](TransposeOp op) {
      Value written = findWritten(op.getX());
      if (!written)
        return;
      elide(op);
      std::optional<Strided> place = findWrittenPlace(written);
      if (!place || place->strides.back() != 1)
        op->removeAttr(kElidedAttr);
    });
  }

  /// Elides a concatenation of results of attention, such as the gradients of
  /// query, key and value, which then write the parts of its result.
  static void elideConcatenations(func::FuncOp program) {
    program.walk([](ConcatOp op) {
      elide(op);
      if (!llvm::all_of(op.getInputs(),
                        [&](Value part) { return isWrittenInPlace(part, op); }))
        op->removeAttr(kElidedAttr);
    });
  }

  /// Whether attention can write `part` into the elided concatenation.
  static bool isWrittenInPlace(Value part, ConcatOp concat) {
    Value written = findWritten(part);
    if (!written)
      return false;
    std::optional<Strided> place = findWrittenPlace(written);
    int64_t bits = getTensor(written).getElementTypeBitWidth();
    auto isAligned = [&](int64_t elements) {
      return elements * bits % (8 * ::binade::plan::kDeviceAlignment) == 0;
    };
    return place && place->base == concat.getResult() &&
           place->strides.back() == 1 && isAligned(place->offset) &&
           llvm::all_of(ArrayRef(place->strides).drop_back(), isAligned);
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
