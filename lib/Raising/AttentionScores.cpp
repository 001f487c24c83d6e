//===- AttentionScores.cpp - Scores of attention --------------------------===//

#include "AttentionScores.h"
#include "Dataflow.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// The positions that a mask hides.
enum class Hidden { None, Causal, Other };
} // namespace

static double getDouble(APFloat value) {
  bool losesInfo;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

/// Whether adding `value` to a score makes its softmax exactly zero.
static bool hides(double value) { return value <= -1e30; }

/// Returns the constant of which `value` is a broadcast along leading axes, or
/// which it is; null for other values.
static DenseElementsAttr getConstant(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    auto rank = cast<RankedTensorType>(value.getType()).getRank();
    int64_t from = cast<RankedTensorType>(broadcast.getX().getType()).getRank();
    if (!llvm::equal(broadcast.getAxes(),
                     llvm::seq<int64_t>(rank - from, rank)))
      return {};
    value = broadcast.getX();
  }
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                  : DenseElementsAttr();
}

/// Returns the kind of a mask for scores [..., queries, keys]. A position is
/// visible, if the mask adds exactly 0, or hidden; a mask with other values is
/// of kind Other.
template <typename T>
static Hidden classify(DenseElementsAttr mask, int64_t queries, int64_t keys,
                       function_ref<std::optional<bool>(const T &)> isVisible) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(mask.getType()).getShape();
  bool isWhole = shape.size() >= 2 && shape.back() == keys &&
                 shape[shape.size() - 2] == queries;
  bool hidesNone = true, isCausal = isWhole && queries == keys;
  int64_t query = 0, key = 0;
  for (const T &value : mask.getValues<T>()) {
    std::optional<bool> visible = isVisible(value);
    if (!visible)
      return Hidden::Other;
    hidesNone &= *visible;
    isCausal &= *visible != (key > query);
    if (!hidesNone && !isCausal)
      return Hidden::Other;
    if (++key == keys) {
      key = 0;
      query = query + 1 == queries ? 0 : query + 1;
    }
  }
  return hidesNone ? Hidden::None : Hidden::Causal;
}

/// Returns the positions that `bias` hides by what it adds. With `byInfinity`
/// only minus infinity hides.
static Hidden classifyBias(Value bias, RankedTensorType scores,
                           bool byInfinity) {
  DenseElementsAttr constant = getConstant(bias);
  if (!constant)
    return Hidden::Other;
  auto isVisible = [&](double x) {
    bool isHidden = byInfinity ? x == -INFINITY : hides(x);
    return x == 0     ? std::optional(true)
           : isHidden ? std::optional(false)
                      : std::nullopt;
  };
  int64_t queries = scores.getShape().drop_back().back(),
          keys = scores.getShape().back();
  // Reading f32 elements directly is ten times as fast.
  if (constant.getElementType().isF32())
    return classify<float>(constant, queries, keys, isVisible);
  return classify<APFloat>(constant, queries, keys, [&](const APFloat &x) {
    return isVisible(getDouble(x));
  });
}

/// Returns the positions where `condition` is equal to `hidesWhereTrue`.
static Hidden classifyMask(Value condition, bool hidesWhereTrue,
                           RankedTensorType scores) {
  DenseElementsAttr constant = getConstant(condition);
  if (!constant)
    return Hidden::Other;
  return classify<bool>(
      constant, scores.getShape().drop_back().back(), scores.getShape().back(),
      [&](bool holds) { return std::optional(holds != hidesWhereTrue); });
}

std::pair<Value, double> mlir::binade::takeScale(Composite &composite,
                                                 Value value) {
  if (auto product = value.getDefiningOp<MulOp>())
    for (auto [factor, rest] : {std::pair(product.getLhs(), product.getRhs()),
                                std::pair(product.getRhs(), product.getLhs())})
      if (std::optional<APFloat> splat = getSplat(factor);
          splat && composite.take<MulOp>(value))
        return {rest, getDouble(*splat)};
  if (auto quotient = value.getDefiningOp<DivOp>())
    if (std::optional<APFloat> splat = getSplat(quotient.getRhs());
        splat && composite.take<DivOp>(value))
      return {quotient.getLhs(), 1.0 / getDouble(*splat)};
  return {value, 1.0};
}

/// Whether `value`, the result of ops that only scores have, is computed from a
/// matmul.
static bool isOfProduct(Value value) {
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (!op || isa<MatmulOp>(op))
      return op;
    if (!isa<AddOp, DivOp, MulOp, SelectOp, TanhOp>(op))
      return false;
    // All but one operand of these ops are constants; a sum may have any.
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      if (isa<FloatType>(getElementTypeOrSelf(operand.getType())) &&
          !getSplat(operand))
        operands.push_back(operand);
    if (isa<AddOp>(op))
      return llvm::any_of(operands, isOfProduct);
    if (operands.size() != 1)
      return false;
    value = operands.front();
  }
  return false;
}

/// Whether each element of `bias` is 0 or minus infinity, selected by a mask.
static bool isZeroOrMinusInfinity(Value bias) {
  while (isa_and_nonnull<BroadcastOp, ReshapeOp>(bias.getDefiningOp()))
    bias = bias.getDefiningOp()->getOperand(0);
  auto select = bias.getDefiningOp<SelectOp>();
  auto isChoice = [](Value zero, Value none) {
    return isSplat(zero, 0.0) && isSplat(none, -INFINITY);
  };
  return select && (isChoice(select.getLhs(), select.getRhs()) ||
                    isChoice(select.getRhs(), select.getLhs()));
}

/// Removes the outermost bias or mask from `value`.
std::optional<AttentionScores::Term>
AttentionScores::takeTerm(Composite &composite, Value &value) const {
  if (auto sum = value.getDefiningOp<AddOp>())
    for (auto [scores, bias] : {std::pair(sum.getLhs(), sum.getRhs()),
                                std::pair(sum.getRhs(), sum.getLhs())})
      if (isOfProduct(scores) && composite.take<AddOp>(value)) {
        value = scores;
        if (isZeroOrMinusInfinity(bias))
          return Term{Kind::Mask, bias, /*hidesWhereTrue=*/false, -INFINITY};
        return Term{Kind::Bias, bias};
      }
  if (auto select = value.getDefiningOp<SelectOp>())
    for (bool hidesWhereTrue : {false, true}) {
      Value scores = hidesWhereTrue ? select.getRhs() : select.getLhs();
      std::optional<APFloat> fill =
          getSplat(hidesWhereTrue ? select.getLhs() : select.getRhs());
      if (fill && isOfProduct(scores) && composite.take<SelectOp>(value)) {
        value = scores;
        return Term{Kind::Mask, select.getCondition(), hidesWhereTrue,
                    getDouble(*fill)};
      }
    }
  return std::nullopt;
}

/// Removes c tanh(x / c) from `value`, if there is one. Fails for other
/// hyperbolic tangents.
LogicalResult AttentionScores::takeSoftcap(Composite &composite, Value &value) {
  auto scaled = value.getDefiningOp<MulOp>();
  if (!scaled)
    return success();
  for (auto [factor, tangent] : {std::pair(scaled.getLhs(), scaled.getRhs()),
                                 std::pair(scaled.getRhs(), scaled.getLhs())}) {
    std::optional<APFloat> cap = getSplat(factor);
    if (!cap || !tangent.getDefiningOp<TanhOp>())
      continue;
    softcap = getDouble(*cap);
    composite.take<MulOp>(value);
    auto tanh = composite.take<TanhOp>(tangent);
    if (!tanh || !(softcap > 0.0) || !std::isfinite(softcap))
      return failure();
    auto quotient = composite.take<DivOp>(tanh.getX());
    if (quotient && isSplat(quotient.getRhs(), softcap)) {
      value = quotient.getLhs();
      return success();
    }
    auto multiple = composite.take<MulOp>(tanh.getX());
    for (bool isLeft : {false, true})
      if (multiple && isSplat(isLeft ? multiple.getLhs() : multiple.getRhs(),
                              1.0 / softcap)) {
        value = isLeft ? multiple.getRhs() : multiple.getLhs();
        return success();
      }
    return failure();
  }
  return success();
}

/// Adds `bias` to `biases`, or its terms, if these are broadcast and therefore
/// smaller.
static void addTerms(Value bias, SmallVectorImpl<Value> &biases) {
  auto sum = bias.getDefiningOp<AddOp>();
  auto isBroadcast = [](Value x) {
    return static_cast<bool>(x.getDefiningOp<BroadcastOp>());
  };
  if (sum && isBroadcast(sum.getLhs()) && isBroadcast(sum.getRhs())) {
    addTerms(sum.getLhs(), biases);
    bias = sum.getRhs();
  }
  biases.push_back(bias);
}

/// Sorts terms, the outermost first, into biases, one mask, and a causal mask.
LogicalResult AttentionScores::sortTerms(SmallVector<Term> terms,
                                         RankedTensorType type) {
  auto getPattern = [&](const Term &term, bool byInfinity) {
    if (term.kind == Kind::Bias)
      return classifyBias(term.value, type, byInfinity);
    bool isHidden = byInfinity ? term.fill == -INFINITY : hides(term.fill);
    return isHidden ? classifyMask(term.value, term.hidesWhereTrue, type)
                    : Hidden::Other;
  };
  auto isOfPattern = [&](Hidden positions, bool byInfinity) {
    return [=](const Term &term) {
      return getPattern(term, byInfinity) == positions;
    };
  };
  llvm::erase_if(terms, isOfPattern(Hidden::None, /*byInfinity=*/false));
  // Each query sees its own position. So a huge number has the same effect as
  // minus infinity, unless another mask hides that position.
  size_t count = terms.size();
  llvm::erase_if(terms, isOfPattern(Hidden::Causal, /*byInfinity=*/count > 1));
  isCausal = terms.size() < count;
  if (!terms.empty() && type.getElementType().isF64())
    return failure();
  for (const Term &term : llvm::reverse(terms)) {
    // The op replaces scores after it has added biases.
    if (mask && (term.kind == Kind::Mask || mask->fill != -INFINITY))
      return failure();
    if (term.kind == Kind::Mask)
      mask = term;
    else
      addTerms(term.value, biases);
  }
  return success();
}

LogicalResult AttentionScores::match(Composite &composite, Value value) {
  RankedTensorType type = getTensor(value);
  SmallVector<Term> terms;
  while (std::optional<Term> term = takeTerm(composite, value))
    terms.push_back(*term);
  if (failed(takeSoftcap(composite, value)))
    return failure();
  std::tie(product, scale) = takeScale(composite, value);
  return sortTerms(terms, type);
}

//===----------------------------------------------------------------------===//
// Biases and masks as small as they are before they are broadcast
//===----------------------------------------------------------------------===//

namespace {
/// Rebuilds values with size 1 for the axes along which all elements are equal
/// because of a broadcast.
class Narrower {
public:
  explicit Narrower(ImplicitLocOpBuilder &b) : b(b) {}

  Value narrow(Value x) { return build(x, getShape(x)); }

private:
  /// The maximum number of ops between a value and a broadcast.
  static constexpr unsigned kMaxOps = 5;

  SmallVector<int64_t> getShape(Value x, unsigned depth = 0);
  Value build(Value x, ArrayRef<int64_t> shape, unsigned depth = 0);

  ImplicitLocOpBuilder &b;
};
} // namespace

static SmallVector<int64_t> getSizesAboveOne(ArrayRef<int64_t> sizes) {
  return llvm::to_vector(
      llvm::make_filter_range(sizes, [](int64_t size) { return size != 1; }));
}

/// Whether `reshape` only adds or removes axes of size 1.
static bool changesOnlyUnits(ReshapeOp reshape) {
  return getSizesAboveOne(getTensor(reshape.getX()).getShape()) ==
         getSizesAboveOne(getTensor(reshape.getResult()).getShape());
}

/// Returns the shape of `x` with size 1 for such axes.
SmallVector<int64_t> Narrower::getShape(Value x, unsigned depth) {
  ArrayRef<int64_t> whole = getTensor(x).getShape();
  SmallVector<int64_t> shape(whole.size(), 1);
  Operation *op = x.getDefiningOp();
  if (!op || depth > kMaxOps)
    return llvm::to_vector(whole);
  if (auto constant = dyn_cast<ConstantOp>(op);
      constant && isa<SplatElementsAttr>(constant.getValue()))
    return shape;
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    for (auto [axis, size] :
         llvm::zip(broadcast.getAxes(), getShape(broadcast.getX(), depth)))
      shape[axis] = size;
    return shape;
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op);
      reshape && changesOnlyUnits(reshape)) {
    SmallVector<int64_t> sizes;
    for (auto [size, own] : llvm::zip(getTensor(reshape.getX()).getShape(),
                                      getShape(reshape.getX(), depth)))
      if (size != 1)
        sizes.push_back(own);
    size_t next = 0;
    for (auto [size, own] : llvm::zip(whole, shape))
      if (size != 1)
        own = sizes[next++];
    return shape;
  }
  if (!isElementwise(op) || op->getNumOperands() == 0)
    return llvm::to_vector(whole);
  for (Value operand : op->getOperands())
    for (auto [own, size] : llvm::zip(shape, getShape(operand, depth + 1)))
      own = std::max(own, size);
  return shape;
}

/// Builds `x` with `shape`, which `getShape` returned or which is larger.
Value Narrower::build(Value x, ArrayRef<int64_t> shape, unsigned depth) {
  RankedTensorType type = getTensor(x);
  if (type.getShape() == shape)
    return x;
  SmallVector<int64_t> own = getShape(x, depth);
  if (ArrayRef(own) != shape)
    return buildBroadcast(b, build(x, own, depth),
                          llvm::to_vector(llvm::seq<int64_t>(0, own.size())),
                          shape);
  Operation *op = x.getDefiningOp();
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto splat = cast<SplatElementsAttr>(constant.getValue());
    return ConstantOp::create(b, splat.resizeSplat(type.clone(shape)));
  }
  if (isa<BroadcastOp, ReshapeOp>(op)) {
    Value from = op->getOperand(0);
    return buildReshape(b, build(from, getShape(from, depth), depth), shape);
  }
  Operation *copy = op->clone();
  for (OpOperand &operand : copy->getOpOperands())
    operand.set(build(operand.get(), shape, depth + 1));
  copy->getResult(0).setType(type.clone(shape));
  b.insert(copy);
  return copy->getResult(0);
}

void AttentionScores::apply(ImplicitLocOpBuilder &b, AttentionOp op) const {
  Narrower narrower(b);
  SmallVector<Value> own;
  for (Value bias : biases)
    own.push_back(narrower.narrow(bias));
  op.getBiasesMutable().assign(own);
  op.setCausal(isCausal);
  op.setSoftcap(APFloat(softcap));
  if (!mask)
    return;
  Value visible = narrower.narrow(mask->value);
  if (isa<FloatType>(getElementTypeOrSelf(visible.getType())))
    visible = CompareOp::create(
        b, visible, buildSplat(b, visible.getType(), 0.0), Comparison::Equal);
  if (mask->hidesWhereTrue)
    visible = NotOp::create(b, visible);
  op.getMaskMutable().assign(visible);
  op.setFill(APFloat(mask->fill));
}
