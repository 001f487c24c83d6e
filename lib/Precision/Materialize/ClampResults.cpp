//===- ClampResults.cpp - Clamping of results that overflow ---------------===//
//
// Inserts ops that keep results finite, as HuggingFace's T5 does in f16. NaN
// stays NaN.
//
//===----------------------------------------------------------------------===//

#include "ClampResults.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

/// The distance that HuggingFace's T5 keeps from the largest finite value.
static constexpr double kMargin = 1000.0;

namespace {
/// Records the inserted ops and sets their phase.
struct Inserted : OpBuilder::Listener {
  explicit Inserted(Phase phase) : phase(phase) {}
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    ops.insert(op);
    if (!op->hasTrait<OpTrait::ConstantLike>())
      setPhase(op, phase);
  }
  Phase phase;
  SmallPtrSet<Operation *, 16> ops;
};
} // namespace

/// Returns `limit` if an element of `x` is infinite, otherwise `largest`; both
/// in the format and shape of `x`.
static Value findLimit(ImplicitLocOpBuilder &b, Value x, double limit,
                       double largest) {
  auto type = cast<RankedTensorType>(x.getType());
  Value isInfinite = CompareOp::create(
      b, AbsOp::create(b, x), buildSplat(b, type, INFINITY), Comparison::Equal);
  Value limits = SelectOp::create(b, isInfinite, buildSplat(b, type, -limit),
                                  buildSplat(b, type, -largest));
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  Value found = ReduceMaxOp::create(b, limits, axes);
  return buildBroadcast(b, NegOp::create(b, found), {}, type.getShape());
}

void mlir::binade::clampResult(OpResult result, Clamp clamp) {
  auto type = cast<RankedTensorType>(result.getType());
  const llvm::fltSemantics &format =
      cast<FloatType>(type.getElementType()).getFloatSemantics();
  if (APFloat::semanticsMaxExponent(format) >=
      APFloat::semanticsMaxExponent(APFloat::IEEEsingle()))
    return;
  Inserted inserted(getPhase(result.getOwner()));
  ImplicitLocOpBuilder b(result.getLoc(), result.getContext());
  b.setInsertionPointAfterValue(result);
  b.setListener(&inserted);
  double largest = APFloat::getLargest(format).convertToDouble();
  Value limit = clamp == Clamp::Infinities
                    ? buildSplat(b, type, largest)
                    : findLimit(b, result, largest - kMargin, largest);
  Value low = MaxOp::create(b, result, NegOp::create(b, limit));
  Value clamped = MinOp::create(b, low, limit);
  result.replaceUsesWithIf(clamped, [&](OpOperand &use) {
    return !inserted.ops.contains(use.getOwner());
  });
}
