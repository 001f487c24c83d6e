//===- RecognizeGradients.cpp - Spelled-out gradients of composites -------===//

#include "binade/IR/Build.h"
#include "binade/IR/EraseDead.h"
#include "binade/IR/Exported.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/Recovery/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_RECOGNIZEGRADIENTSPASS
#include "binade/Recovery/Passes.h.inc"

namespace {
/// The ops behind a root, while it is being matched.
struct Matched {
  SmallVector<Location> nodes;

  template <typename Op> Op get(Value value) {
    auto op = value.getDefiningOp<Op>();
    if (op)
      nodes.push_back(op.getLoc());
    return op;
  }
};
} // namespace

/// x where `value` is the sum of each of its rows, spread over them again.
static Value getSummed(Matched &matched, Value value) {
  auto broadcast = matched.get<BroadcastOp>(value);
  if (!broadcast)
    return {};
  ArrayRef<int64_t> shape = getTensor(value).getShape();
  Value sums = broadcast.getX();
  int64_t last = static_cast<int64_t>(shape.size()) - 1, kept = last;
  if (auto reshape = matched.get<ReshapeOp>(sums)) {
    // An axis of 1 in the place of the last.
    sums = reshape.getX();
    ++kept;
  }
  if (!llvm::equal(broadcast.getAxes(), llvm::seq<int64_t>(0, kept)) ||
      getTensor(sums).getShape() != shape.drop_back())
    return {};
  auto sum = matched.get<ReduceSumOp>(sums);
  return sum && ArrayRef(sum.getAxes()) == ArrayRef(last) &&
                 getTensor(sum.getX()).getShape() == shape
             ? sum.getX()
             : Value();
}

/// dy y - y sum(dy y) with y = softmax(x)
static Value buildSoftmaxGrad(ImplicitLocOpBuilder &b, Matched &matched,
                              SubOp root) {
  auto product = matched.get<MulOp>(root.getLhs());
  auto rest = matched.get<MulOp>(root.getRhs());
  if (!product || !rest)
    return {};
  for (auto [y, spread] : {std::pair(rest.getLhs(), rest.getRhs()),
                           std::pair(rest.getRhs(), rest.getLhs())}) {
    Matched attempt = matched;
    if (!y.getDefiningOp<SoftmaxOp>() ||
        getSummed(attempt, spread) != root.getLhs() ||
        (product.getLhs() != y && product.getRhs() != y))
      continue;
    matched = attempt;
    Value dy = product.getLhs() == y ? product.getRhs() : product.getLhs();
    b.setLoc(FusedLoc::get(b.getContext(), matched.nodes));
    return SoftmaxGradOp::create(b, root.getType(), dy, y, PrecisionAttr());
  }
  return {};
}

/// dy - exp(y) sum(dy) with y = log_softmax(x)
static Value buildLogSoftmaxGrad(ImplicitLocOpBuilder &b, Matched &matched,
                                 SubOp root) {
  auto rest = matched.get<MulOp>(root.getRhs());
  if (!rest)
    return {};
  for (auto [factor, spread] : {std::pair(rest.getLhs(), rest.getRhs()),
                                std::pair(rest.getRhs(), rest.getLhs())}) {
    Matched attempt = matched;
    auto exp = attempt.get<ExpOp>(factor);
    if (!exp || !exp.getX().getDefiningOp<LogSoftmaxOp>() ||
        getSummed(attempt, spread) != root.getLhs())
      continue;
    matched = attempt;
    b.setLoc(FusedLoc::get(b.getContext(), matched.nodes));
    return LogSoftmaxGradOp::create(b, root.getType(), root.getLhs(),
                                    exp.getX(), PrecisionAttr());
  }
  return {};
}

namespace {
struct RecognizeGradientsPass
    : impl::RecognizeGradientsPassBase<RecognizeGradientsPass> {
  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>(kGradientName);
    if (!function)
      return;
    bool isChanged = false;
    for (auto root : llvm::make_early_inc_range(function.getOps<SubOp>())) {
      if (getPhase(root) != Phase::Backward)
        continue;
      ImplicitLocOpBuilder b(root.getLoc(), root);
      for (auto build : {buildSoftmaxGrad, buildLogSoftmaxGrad}) {
        Matched matched{{root.getLoc()}};
        Value gradient = build(b, matched, root);
        if (!gradient)
          continue;
        setPhase(gradient.getDefiningOp(), Phase::Backward);
        root.getResult().replaceAllUsesWith(gradient);
        isChanged = true;
        break;
      }
    }
    if (isChanged)
      eraseDead(function);
  }
};
} // namespace
} // namespace mlir::binade
