//===- RecognizeGradients.cpp - Recognition of gradients of composites ----===//

#include "binade/IR/Build.h"
#include "binade/IR/EraseDead.h"
#include "binade/IR/Exported.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/Raising/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_RECOGNIZEGRADIENTSPASS
#include "binade/Raising/Passes.h.inc"

namespace {
/// Collects the locations of ops while a gradient is being matched.
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

/// Returns x if `value` is the sum of each row of x, broadcast to the row; null
/// otherwise.
static Value getSummed(Matched &matched, Value value) {
  auto broadcast = matched.get<BroadcastOp>(value);
  if (!broadcast)
    return {};
  ArrayRef<int64_t> shape = getTensor(value).getShape();
  Value sums = broadcast.getX();
  int64_t last = static_cast<int64_t>(shape.size()) - 1, kept = last;
  if (auto reshape = matched.get<ReshapeOp>(sums)) {
    // The last axis is kept with length 1.
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

/// Matches dy y - y sum(dy y) with y = softmax(x).
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

/// Matches dy - exp(y) sum(dy) with y = log_softmax(x).
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

static bool swapsFirstTwo(TransposeOp op) {
  ArrayRef<int64_t> axes = op.getPermutation();
  return axes.size() > 2 && axes[0] == 1 && axes[1] == 0 &&
         llvm::equal(axes.drop_front(2),
                     llvm::seq<int64_t>(2, static_cast<int64_t>(axes.size())));
}

/// Whether a convolution of `x` with `weight` has the shape of `y`. Its strides
/// are the dilations of `swapped`, and its dilations are the strides.
static bool hasResultShape(ConvOp swapped, ArrayRef<int64_t> x,
                           ArrayRef<int64_t> weight, ArrayRef<int64_t> y) {
  if (y[0] != x[0] || y[1] != weight[0] || weight[1] != x[1])
    return false;
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    int64_t room = x[i + 2] + swapped.getPaddingLow()[i] +
                   swapped.getPaddingHigh()[i] -
                   swapped.getStrides()[i] * (weight[i + 2] - 1) - 1;
    if (room < 0 || room / swapped.getDilations()[i] + 1 != y[i + 2])
      return false;
  }
  return true;
}

/// Matches sum x[n, c, s p + d k] dy[n, o, p] over n and p, computed as a
/// convolution of images x[c] with kernels dy[o], strides d and dilations s. A
/// slice drops positions k beyond the weight's kernel.
static Value buildConvWeightGrad(ImplicitLocOpBuilder &b, Matched &matched,
                                 TransposeOp root) {
  if (!swapsFirstTwo(root))
    return {};
  Value product = root.getX();
  while (auto slice = matched.get<SliceOp>(product)) {
    if (!llvm::all_of(slice.getOffsets(), [](int64_t at) { return at == 0; }) ||
        !llvm::all_of(slice.getStrides(), [](int64_t by) { return by == 1; }))
      return {};
    product = slice.getX();
  }
  auto conv = matched.get<ConvOp>(product);
  if (!conv || conv.getBias() || conv.getGroups() != 1 ||
      conv.getChannelsLast())
    return {};
  auto x = matched.get<TransposeOp>(conv.getX());
  auto dy = matched.get<TransposeOp>(conv.getWeight());
  if (!x || !dy || !swapsFirstTwo(x) || !swapsFirstTwo(dy) ||
      !hasResultShape(conv, getTensor(x.getX()).getShape(),
                      root.getType().getShape(),
                      getTensor(dy.getX()).getShape()))
    return {};
  b.setLoc(FusedLoc::get(b.getContext(), matched.nodes));
  return ConvWeightGradOp::create(
      b, root.getType(), dy.getX(), x.getX(), conv.getDilations(),
      conv.getPaddingLow(), conv.getPaddingHigh(), conv.getStrides(),
      /*groups=*/1, /*channels_last=*/false, PrecisionAttr());
}

/// Replaces each `Op` of the backward pass that one of `builders` matches as
/// the root of a gradient.
template <typename Op>
static bool
rewrite(func::FuncOp function,
        ArrayRef<Value (*)(ImplicitLocOpBuilder &, Matched &, Op)> builders) {
  bool isChanged = false;
  for (Op root : llvm::make_early_inc_range(function.getOps<Op>())) {
    if (getPhase(root) != Phase::Backward)
      continue;
    ImplicitLocOpBuilder b(root.getLoc(), root);
    for (auto *build : builders) {
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
  return isChanged;
}

namespace {
struct RecognizeGradientsPass
    : impl::RecognizeGradientsPassBase<RecognizeGradientsPass> {
  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>(kGradientName);
    if (!function)
      return;
    bool isChanged =
        rewrite<SubOp>(function, {buildSoftmaxGrad, buildLogSoftmaxGrad});
    isChanged |= rewrite<TransposeOp>(function, {buildConvWeightGrad});
    if (isChanged)
      eraseDead(function);
  }
};
} // namespace
} // namespace mlir::binade
