//===- SimplifyCasts.cpp - Removal of casts that change no value ----------===//

#include "binade/IR/Build.h"
#include "binade/Precision/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_SIMPLIFYCASTSPASS
#include "binade/Precision/Passes.h.inc"

/// Whether `wide` can represent every value of `narrow`, including infinities,
/// NaN, and zeros of either sign.
static bool canRepresentAll(FloatType wide, FloatType narrow) {
  const llvm::fltSemantics &w = wide.getFloatSemantics();
  const llvm::fltSemantics &n = narrow.getFloatSemantics();
  auto hasAll = [&](auto has) { return has(w) || !has(n); };
  return APFloat::isRepresentableBy(n, w) && hasAll(APFloat::semanticsHasInf) &&
         hasAll(APFloat::semanticsHasNaN) &&
         hasAll(APFloat::semanticsHasSignedRepr) &&
         hasAll(APFloat::semanticsHasZero) &&
         hasAll([](const llvm::fltSemantics &semantics) {
           return APFloat::semanticsHasZero(semantics) &&
                  APFloat::getZero(semantics, /*Negative=*/true).isNegative();
         });
}

static bool hasInf(FloatType type) {
  return APFloat::semanticsHasInf(type.getFloatSemantics());
}

/// Whether a cast gives the same result for the largest value and for infinity.
static bool isInfinityToo(FloatType from, FloatType to, bool saturate) {
  const llvm::fltSemantics &t = to.getFloatSemantics();
  APFloat value = APFloat::getLargest(from.getFloatSemantics());
  bool losesInfo;
  value.convert(t, APFloat::rmNearestTiesToEven, &losesInfo);
  bool isBounded = saturate || (!APFloat::semanticsHasInf(t) &&
                                !APFloat::semanticsHasNaN(t));
  return !value.isFinite() ||
         (isBounded && value.bitwiseIsEqual(APFloat::getLargest(t)));
}

/// Returns the value by which `op` may be replaced; null if it has to stay.
///
/// A cast through a format that can represent every value of the source can be
/// merged, unless the first cast saturates and so makes infinities finite.
static Value merge(CastOp op) {
  auto before = op.getX().getDefiningOp<CastOp>();
  if (!before)
    return {};
  auto element = [](Value x) {
    return dyn_cast<FloatType>(getElementTypeOrSelf(x.getType()));
  };
  FloatType source = element(before.getX()), middle = element(op.getX()),
            target = element(op.getY());
  if (!source || !middle || !target || !canRepresentAll(middle, source))
    return {};
  if (before.getSaturate() && hasInf(source) &&
      !isInfinityToo(middle, target, op.getSaturate()))
    return {};
  if (source == target && !(op.getSaturate() && hasInf(source)))
    return before.getX();
  OpBuilder b(op);
  auto merged = CastOp::create(b, op.getLoc(), op.getType(), before.getX(),
                               op.getSaturate());
  merged->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return merged;
}

/// Returns the value that replaces `op` if rounding does not change it, because
/// it was cast from a format that the rounding format can represent; else null.
static Value dropRounding(RoundToOp op) {
  auto before = op.getX().getDefiningOp<CastOp>();
  auto source =
      before
          ? dyn_cast<FloatType>(getElementTypeOrSelf(before.getX().getType()))
          : FloatType();
  if (!source || !canRepresentAll(op.getFloatFormat(), source) ||
      (before.getSaturate() && hasInf(source)))
    return {};
  return before.getY();
}

namespace {
struct SimplifyCastsPass : impl::SimplifyCastsPassBase<SimplifyCastsPass> {
  void runOnOperation() override {
    // Operands are simplified before their users.
    SmallVector<Operation *> casts, unread;
    getOperation()->walk([&](Operation *op) {
      if (isa<CastOp, RoundToOp>(op))
        casts.push_back(op);
    });
    for (Operation *op : casts) {
      auto cast = dyn_cast<CastOp>(op);
      Value value =
          cast ? merge(cast) : dropRounding(mlir::cast<RoundToOp>(op));
      if (!value)
        continue;
      op->getResult(0).replaceAllUsesWith(value);
      unread.push_back(op);
    }
    for (Operation *op : llvm::reverse(unread))
      eraseUnread(op);
  }

  static void eraseUnread(Operation *op) {
    auto before = op->getOperand(0).getDefiningOp<CastOp>();
    op->erase();
    if (before && before->use_empty())
      eraseUnread(before);
  }
};
} // namespace
} // namespace mlir::binade
