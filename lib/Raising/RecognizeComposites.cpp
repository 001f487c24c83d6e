//===- RecognizeComposites.cpp - Recognition of composites ----------------===//
//
// The pass, and the matching functions that the patterns of Recognize*.cpp
// share.
//
//===----------------------------------------------------------------------===//

#include "Composites.h"
#include "binade/IR/EraseDead.h"
#include "binade/IR/Exported.h"
#include "binade/IR/Interface.h"
#include "binade/Raising/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::binade {
#define GEN_PASS_DEF_RECOGNIZECOMPOSITESPASS
#include "binade/Raising/Passes.h.inc"

namespace {
struct RecognizeCompositesPass
    : impl::RecognizeCompositesPassBase<RecognizeCompositesPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    // `kBackwardAttr` marks a function without its imported backward pass.
    if (!afterRemovedBackward || (function.getSymName() == kForwardName &&
                                  function->hasAttr(kBackwardAttr)))
      recognizeComposites(function);
  }
};
} // namespace
} // namespace mlir::binade

using namespace mlir;
using namespace mlir::binade;

static void rewrite(func::FuncOp function, RewritePatternSet patterns) {
  // Folding and CSE would change ops that are not in a composite.
  GreedyRewriteConfig config;
  config.enableFolding(false)
      .enableConstantCSE(false)
      .setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  (void)applyPatternsGreedily(function, std::move(patterns), config);
  eraseDead(function);
}

void mlir::binade::recognizeComposites(func::FuncOp function) {
  RewritePatternSet patterns(function.getContext());
  populateActivationPatterns(patterns);
  populateAnglePatterns(patterns);
  populateAttentionPatterns(patterns);
  populateNormalizationPatterns(patterns);
  populateSoftmaxPatterns(patterns);
  populateLossPatterns(patterns);
  populateLinearPatterns(patterns);
  rewrite(function, std::move(patterns));
  // Attention includes the hidden rows of its softmax.
  RewritePatternSet others(function.getContext());
  populateHiddenRowPatterns(others);
  rewrite(function, std::move(others));
}

void mlir::binade::recognizeLinear(func::FuncOp function) {
  RewritePatternSet patterns(function.getContext());
  populateLinearPatterns(patterns);
  rewrite(function, std::move(patterns));
}

bool Composite::hasDecision(Operation *op) {
  auto decided = dyn_cast<PrecisionOpInterface>(op);
  return decided && decided.getPrecisionAttr();
}

bool Composite::takeAll(ArrayRef<Operation *> added) {
  for (Operation *op : added) {
    if (hasDecision(op))
      return false;
    if (!contains(op))
      ops.push_back(op);
  }
  return true;
}

bool Composite::isClosed(ArrayRef<Value> open) const {
  return llvm::all_of(ArrayRef(ops).drop_front(), [&](Operation *op) {
    return llvm::is_contained(open, op->getResult(0)) ||
           llvm::all_of(op->getUsers(),
                        [&](Operation *user) { return contains(user); });
  });
}

SmallVector<Value> Composite::takeFactors(Value value) {
  auto product = take<MulOp>(value);
  if (!product)
    return {value};
  SmallVector<Value> factors = takeFactors(product.getLhs());
  llvm::append_range(factors, takeFactors(product.getRhs()));
  return factors;
}

Location Composite::getLoc() const {
  SmallVector<Location> locations;
  for (Operation *op : ops)
    if (!llvm::is_contained(locations, op->getLoc()))
      locations.push_back(op->getLoc());
  return FusedLoc::get(ops.front()->getContext(), locations);
}

std::optional<APFloat> mlir::binade::getSplat(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<SplatElementsAttr>(constant.getValue())
                           : SplatElementsAttr();
  if (!elements || !isa<FloatType>(elements.getElementType()))
    return std::nullopt;
  return elements.getSplatValue<APFloat>();
}

bool mlir::binade::isSplat(Value value, double number) {
  std::optional<APFloat> splat = getSplat(value);
  if (!splat)
    return false;
  APFloat expected(number);
  bool losesInfo;
  expected.convert(splat->getSemantics(), APFloat::rmNearestTiesToEven,
                   &losesInfo);
  return splat->bitwiseIsEqual(expected);
}

bool mlir::binade::dropFactor(SmallVectorImpl<Value> &factors, double number) {
  return static_cast<bool>(takeFactor(
      factors, [&](Value factor) { return isSplat(factor, number); }));
}

Value mlir::binade::takeFactor(SmallVectorImpl<Value> &factors,
                               function_ref<bool(Value)> accept) {
  auto *found = llvm::find_if(factors, accept);
  if (found == factors.end())
    return {};
  Value factor = *found;
  factors.erase(found);
  return factor;
}

Value mlir::binade::getPerColumn(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  auto from = cast<RankedTensorType>(broadcast.getX().getType());
  auto to = cast<RankedTensorType>(value.getType());
  bool isPerColumn = from.getRank() == 1 &&
                     broadcast.getAxes().front() == to.getRank() - 1 &&
                     from.getDimSize(0) == to.getShape().back();
  return isPerColumn ? broadcast.getX() : Value();
}
