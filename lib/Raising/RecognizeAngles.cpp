//===- RecognizeAngles.cpp - Recognition of atan2 -------------------------===//
//
// Exporters write atan2(y, x) as the arc tangent of y / x, plus or minus pi
// where x is negative. The derivative of that formula is NaN where x is 0,
// although the angle is differentiable everywhere except at the origin.
//
//===----------------------------------------------------------------------===//

#include "Composites.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the operand of a broadcast; `value` itself otherwise.
static Value getCopied(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast ? broadcast.getX() : value;
}

/// Returns the value that `condition` compares with 0 by `comparison`; null for
/// other conditions.
static Value getComparedToZero(Value condition, Comparison comparison) {
  auto compare = getCopied(condition).getDefiningOp<CompareOp>();
  if (!compare || compare.getComparison() != comparison ||
      !isSplat(compare.getRhs(), 0.0))
    return {};
  return compare.getLhs();
}

namespace {
/// The arguments y and x of atan2(y, x).
struct PlanePoint {
  Value y, x;
};
} // namespace

/// Matches x < 0 ? (y > 0 ? atan(y / x) + pi : atan(y / x) - pi) : atan(y / x).
static std::optional<PlanePoint> matchAngle(SelectOp root) {
  auto atan = root.getRhs().getDefiningOp<AtanOp>();
  auto quotient = atan ? atan.getX().getDefiningOp<DivOp>() : DivOp();
  auto inner = root.getLhs().getDefiningOp<SelectOp>();
  auto above = inner ? inner.getLhs().getDefiningOp<AddOp>() : AddOp();
  auto below = inner ? inner.getRhs().getDefiningOp<SubOp>() : SubOp();
  if (!quotient || !above || !below)
    return std::nullopt;
  PlanePoint point{quotient.getLhs(), quotient.getRhs()};
  auto is = [&](Value condition, Comparison comparison, Value side) {
    Value compared = getComparedToZero(condition, comparison);
    return compared && getCopied(compared) == getCopied(side);
  };
  bool matches = is(root.getCondition(), Comparison::Less, point.x) &&
                 is(inner.getCondition(), Comparison::Greater, point.y) &&
                 above.getLhs() == atan.getY() &&
                 below.getLhs() == atan.getY() &&
                 isSplat(above.getRhs(), llvm::numbers::pi) &&
                 isSplat(below.getRhs(), llvm::numbers::pi);
  return matches ? std::optional(point) : std::nullopt;
}

/// Computes the angle from the quotient of the smaller and the larger of |x|
/// and |y|. At the origin the angle and its derivative are 0.
static Value buildAngle(ImplicitLocOpBuilder &b, PlanePoint point) {
  auto [y, x] = point;
  Type type = y.getType();
  auto number = [&](double value) { return buildSplat(b, type, value); };
  auto select = [&](Value condition, Value lhs, Value rhs) -> Value {
    return SelectOp::create(b, condition, lhs, rhs);
  };
  auto compare = [&](Value lhs, Value rhs, Comparison comparison) -> Value {
    return CompareOp::create(b, lhs, rhs, comparison);
  };
  Value isAbove = compare(y, number(0.0), Comparison::Greater);
  Value isLeft = compare(x, number(0.0), Comparison::Less);
  Value height = select(isAbove, y, NegOp::create(b, y));
  Value width = select(isLeft, NegOp::create(b, x), x);
  Value isSteep = compare(height, width, Comparison::Greater);
  Value small = select(isSteep, width, height);
  Value large = select(isSteep, height, width);
  Value isOrigin = compare(large, number(0.0), Comparison::Equal);
  Value ratio = DivOp::create(b, select(isOrigin, number(0.0), small),
                              select(isOrigin, number(1.0), large));
  Value angle = AtanOp::create(b, ratio);
  Value complement = SubOp::create(b, number(llvm::numbers::pi / 2), angle);
  angle = select(isSteep, complement, angle);
  Value supplement = SubOp::create(b, number(llvm::numbers::pi), angle);
  angle = select(isLeft, supplement, angle);
  return select(isAbove, angle, NegOp::create(b, angle));
}

namespace {
struct RecognizeAngle : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SelectOp root,
                                PatternRewriter &rewriter) const override {
    std::optional<PlanePoint> point = matchAngle(root);
    if (!point || root.getPrecisionAttr())
      return failure();
    ImplicitLocOpBuilder b(root.getLoc(), rewriter);
    rewriter.replaceOp(root, buildAngle(b, *point));
    return success();
  }
};
} // namespace

void mlir::binade::populateAnglePatterns(RewritePatternSet &patterns) {
  patterns.add<RecognizeAngle>(patterns.getContext());
}
