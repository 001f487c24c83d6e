//===- Build.cpp - Builders shared by op families -------------------------===//

#include "binade/IR/Build.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// Ops on tensors
//===----------------------------------------------------------------------===//

static Attribute getNumber(Type element, double value) {
  if (isa<FloatType>(element))
    return FloatAttr::get(element, value);
  return IntegerAttr::get(element,
                          APInt(element.getIntOrFloatBitWidth(),
                                static_cast<int64_t>(value), /*isSigned=*/true,
                                /*implicitTrunc=*/true));
}

Value mlir::binade::buildSplat(ImplicitLocOpBuilder &b, Type type,
                               double value) {
  auto tensor = cast<RankedTensorType>(type);
  return ConstantOp::create(
      b, DenseElementsAttr::get(tensor,
                                getNumber(tensor.getElementType(), value)));
}

Value mlir::binade::buildCast(ImplicitLocOpBuilder &b, Value x, Type element) {
  auto type = cast<RankedTensorType>(x.getType());
  if (type.getElementType() == element)
    return x;
  return CastOp::create(b, type.clone(element), x, /*saturate=*/false);
}

Value mlir::binade::buildRounded(ImplicitLocOpBuilder &b, Value x,
                                 FloatType format) {
  FloatType storage = getStorageFormat(format);
  x = buildCast(b, x, storage);
  return storage == format ? x : b.createOrFold<RoundToOp>(x, format);
}

Value mlir::binade::buildBroadcast(ImplicitLocOpBuilder &b, Value x,
                                   ArrayRef<int64_t> axes,
                                   ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(x.getType());
  if (type.getShape() == shape)
    return x;
  return BroadcastOp::create(b, type.clone(shape), x, axes);
}

Value mlir::binade::buildReshape(ImplicitLocOpBuilder &b, Value x,
                                 ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(x.getType());
  if (type.getShape() == shape)
    return x;
  return ReshapeOp::create(b, type.clone(shape), x);
}

SmallVector<int64_t> mlir::binade::getSwapOfLastAxes(Type type) {
  int64_t rank = cast<RankedTensorType>(type).getRank();
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(permutation[rank - 2], permutation[rank - 1]);
  return permutation;
}

Value mlir::binade::getSwapped(Value x) {
  auto transpose = x.getDefiningOp<TransposeOp>();
  bool swaps =
      transpose && transpose.getType().getRank() > 1 &&
      transpose.getPermutation() == ArrayRef(getSwapOfLastAxes(x.getType()));
  return swaps ? transpose.getX() : Value();
}

Value mlir::binade::getMoved(Value x) {
  Operation *op = x.getDefiningOp();
  if (!op || op->getNumOperands() != 1 || op->getNumResults() != 1)
    return {};
  auto kernel = dyn_cast<KernelOpInterface>(op);
  bool moves = isa<CastOp>(op) ||
               (kernel && (kernel.getSchedule() == Schedule::View ||
                           kernel.getSchedule() == Schedule::Permute));
  return moves ? op->getOperand(0) : Value();
}

SmallVector<Value> mlir::binade::buildTile(
    ImplicitLocOpBuilder &b, const TileShape &shape, ValueRange sliced,
    ValueRange whole,
    function_ref<TileYield(ImplicitLocOpBuilder &, ValueRange)> body) {
  SmallVector<Value> operands(sliced);
  llvm::append_range(operands, whole);
  SmallVector<Type> types;
  int64_t joins = 0;
  auto build = [&](Region &region, bool isRemainder) {
    Block &block = region.emplaceBlock();
    for (auto [index, operand] : llvm::enumerate(operands)) {
      Type type = operand.getType();
      if (index < sliced.size())
        type = shape.getPiece(type, isRemainder);
      block.addArgument(type, operand.getLoc());
    }
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&block);
    TileYield yield = body(b, block.getArguments());
    SmallVector<Value> values = yield.joined;
    llvm::append_range(values, yield.added);
    YieldOp::create(b, values);
    if (isRemainder)
      return;
    joins = yield.joined.size();
    for (Value piece : yield.joined) {
      auto type = cast<RankedTensorType>(piece.getType());
      SmallVector<int64_t> whole(type.getShape());
      whole.front() = whole.front() / shape.size * shape.countUnits();
      types.push_back(type.clone(whole));
    }
    llvm::append_range(types, ValueRange(yield.added).getTypes());
  };
  Region pieces, remainder;
  build(pieces, /*isRemainder=*/false);
  if (shape.remainder > 0)
    build(remainder, /*isRemainder=*/true);
  auto tile = TileOp::create(b, types, operands, shape.count, shape.size,
                             shape.remainder,
                             static_cast<int64_t>(sliced.size()), joins);
  tile.getBody().takeBody(pieces);
  tile.getRemainderBody().takeBody(remainder);
  return llvm::to_vector_of<Value>(tile.getResults());
}

bool mlir::binade::isConstant(Value x) { return x.getDefiningOp<ConstantOp>(); }

SmallVector<Value> mlir::binade::selectGradients(ImplicitLocOpBuilder &b,
                                                 Value dy, Value condition) {
  Value zero = buildSplat(b, dy.getType(), 0.0);
  return {SelectOp::create(b, condition, dy, zero),
          SelectOp::create(b, condition, zero, dy)};
}

Schedule mlir::binade::getReductionSchedule(Type type, ArrayRef<int64_t> axes) {
  int64_t rank = cast<RankedTensorType>(type).getRank();
  if (static_cast<int64_t>(axes.size()) == rank)
    return Schedule::FullReduction;
  return llvm::is_contained(axes, rank - 1) ? Schedule::RowReduction
                                            : Schedule::ColumnReduction;
}

LogicalResult mlir::binade::inferReduction(std::optional<Location> location,
                                           Type type, ArrayRef<int64_t> axes,
                                           SmallVectorImpl<Type> &types) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape;
  for (auto [axis, size] : llvm::enumerate(tensor.getShape()))
    if (!llvm::is_contained(axes, axis))
      shape.push_back(size);
  int64_t previous = -1;
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= tensor.getRank())
      return emitOptionalError(location, "axis ", axis,
                               " is out of range: ", tensor, " has rank ",
                               tensor.getRank());
    if (axis <= previous)
      return emitOptionalError(location, "expected ascending axes, got [", axes,
                               "]");
    previous = axis;
  }
  types.push_back(tensor.clone(shape));
  return success();
}

//===----------------------------------------------------------------------===//
// Ops on elements
//===----------------------------------------------------------------------===//

Value mlir::binade::splat(ImplicitLocOpBuilder &b, Value like, double value) {
  Type type = like.getType();
  auto number = cast<TypedAttr>(getNumber(getElementTypeOrSelf(type), value));
  if (auto vector = dyn_cast<VectorType>(type))
    number = DenseElementsAttr::get(vector, number);
  return arith::ConstantOp::create(b, number);
}

bool mlir::binade::isUnsigned(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isInteger(1) || element.isUnsignedInteger();
}

int64_t mlir::binade::getInteger(const APInt &bits, Type type) {
  return isUnsigned(type) ? static_cast<int64_t>(bits.getZExtValue())
                          : bits.getSExtValue();
}

// A division by 0, and the signed division that overflows (by -1), must not be
// executed, because they trap on a CPU.
Value mlir::binade::buildQuotient(ImplicitLocOpBuilder &b, Value lhs, Value rhs,
                                  bool isUnsigned) {
  if (isa<FloatType>(getElementTypeOrSelf(lhs.getType())))
    return arith::DivFOp::create(b, lhs, rhs);
  Value zero = splat(b, rhs, 0), one = splat(b, rhs, 1);
  auto is = [&](Value number) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rhs, number);
  };
  Value isZero = is(zero);
  if (isUnsigned) {
    Value divisor = arith::SelectOp::create(b, isZero, one, rhs);
    Value quotient = arith::DivUIOp::create(b, lhs, divisor);
    return arith::SelectOp::create(b, isZero, zero, quotient);
  }
  Value isMinusOne = is(splat(b, rhs, -1));
  Value isSpecial = arith::OrIOp::create(b, isZero, isMinusOne);
  Value divisor = arith::SelectOp::create(b, isSpecial, one, rhs);
  Value quotient = arith::DivSIOp::create(b, lhs, divisor);
  Value negated = arith::SubIOp::create(b, zero, lhs);
  quotient = arith::SelectOp::create(b, isMinusOne, negated, quotient);
  return arith::SelectOp::create(b, isZero, zero, quotient);
}

Value mlir::binade::buildComparison(ImplicitLocOpBuilder &b, Value lhs,
                                    Value rhs, Comparison comparison,
                                    bool isUnsigned) {
  using FloatIs = arith::CmpFPredicate;
  using IntegerIs = arith::CmpIPredicate;
  static constexpr FloatIs floats[] = {FloatIs::OEQ, FloatIs::OLT, FloatIs::OLE,
                                       FloatIs::OGT, FloatIs::OGE};
  static constexpr IntegerIs integers[] = {IntegerIs::eq, IntegerIs::slt,
                                           IntegerIs::sle, IntegerIs::sgt,
                                           IntegerIs::sge};
  static constexpr IntegerIs unsignedIntegers[] = {
      IntegerIs::eq, IntegerIs::ult, IntegerIs::ule, IntegerIs::ugt,
      IntegerIs::uge};
  auto index = static_cast<unsigned>(comparison);
  if (isa<FloatType>(getElementTypeOrSelf(lhs.getType())))
    return arith::CmpFOp::create(b, floats[index], lhs, rhs);
  return arith::CmpIOp::create(
      b, isUnsigned ? unsignedIntegers[index] : integers[index], lhs, rhs);
}

namespace {
/// Arithmetic on elements with short names, for readable formulas.
struct Formula {
  ImplicitLocOpBuilder &b;
  Value like;
  Value number(double value) { return splat(b, like, value); }
  Value add(Value l, Value r) { return arith::AddFOp::create(b, l, r); }
  Value sub(Value l, Value r) { return arith::SubFOp::create(b, l, r); }
  Value mul(Value l, Value r) { return arith::MulFOp::create(b, l, r); }
};
} // namespace

static constexpr double kCubic = 0.044715;
static const double kTanhScale = std::sqrt(2.0 / llvm::numbers::pi);

/// Returns the standard normal distribution function at x, by erf or a tanh
/// fit.
static Value buildNormalCdf(Formula f, Value x, Approximation approximation) {
  Value argument, saturating;
  if (approximation == Approximation::Tanh) {
    Value cube = f.mul(f.mul(x, x), x);
    argument =
        f.mul(f.number(kTanhScale), f.add(x, f.mul(f.number(kCubic), cube)));
    saturating = math::TanhOp::create(f.b, argument);
  } else {
    argument = f.mul(x, f.number(std::sqrt(0.5)));
    saturating = math::ErfOp::create(f.b, argument);
  }
  return f.mul(f.number(0.5), f.add(f.number(1.0), saturating));
}

Value mlir::binade::buildGelu(ImplicitLocOpBuilder &b, Value x,
                              Approximation approximation) {
  Formula f{b, x};
  return f.mul(x, buildNormalCdf(f, x, approximation));
}

/// d gelu = cdf(x) + x cdf'(x). By erf, cdf' is the normal density; by tanh,
/// with u = c (x + k x^3): cdf' = (1 - tanh(u)^2) c (1 + 3 k x^2) / 2.
Value mlir::binade::buildGeluGrad(ImplicitLocOpBuilder &b, Value dy, Value x,
                                  Approximation approximation) {
  Formula f{b, x};
  Value cdf = buildNormalCdf(f, x, approximation);
  Value square = f.mul(x, x);
  Value density;
  if (approximation == Approximation::Tanh) {
    // 1 - tanh^2 = 4 cdf (1 - cdf).
    Value slope = f.mul(f.number(2.0 * kTanhScale),
                        f.mul(cdf, f.sub(f.number(1.0), cdf)));
    Value inner = f.add(f.number(1.0), f.mul(f.number(3.0 * kCubic), square));
    density = f.mul(slope, inner);
  } else {
    Value gauss = math::ExpOp::create(b, f.mul(f.number(-0.5), square));
    density = f.mul(gauss, f.number(1.0 / std::sqrt(2.0 * llvm::numbers::pi)));
  }
  return f.mul(dy, f.add(cdf, f.mul(x, density)));
}

/// Returns sigmoid(x) and sigmoid(-x) by one exponential, both without
/// cancellation.
static std::pair<Value, Value> buildSigmoids(Formula f, Value x) {
  Value size = math::AbsFOp::create(f.b, x);
  Value decay = math::ExpOp::create(f.b, arith::NegFOp::create(f.b, size));
  Value one = f.number(1.0);
  Value large = arith::DivFOp::create(f.b, one, f.add(one, decay));
  Value small = f.mul(decay, large);
  Value isNegative =
      arith::CmpFOp::create(f.b, arith::CmpFPredicate::OLT, x, f.number(0.0));
  auto choose = [&](Value below, Value above) -> Value {
    return arith::SelectOp::create(f.b, isNegative, below, above);
  };
  return {choose(small, large), choose(large, small)};
}

Value mlir::binade::buildSilu(ImplicitLocOpBuilder &b, Value x) {
  Formula f{b, x};
  return f.mul(x, buildSigmoids(f, x).first);
}

/// d silu = s + x s (1 - s) with s = sigmoid(x).
Value mlir::binade::buildSiluGrad(ImplicitLocOpBuilder &b, Value dy, Value x) {
  Formula f{b, x};
  auto [sigmoid, rest] = buildSigmoids(f, x);
  Value slope = f.mul(sigmoid, f.add(f.number(1.0), f.mul(x, rest)));
  return f.mul(dy, slope);
}
