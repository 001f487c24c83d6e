//===- Elementwise.cpp - Import of elementwise ops ------------------------===//

#include "../Evaluate.h"
#include "../OpTable.h"
#include "../TorchOp.h"
#include "Arithmetic.h"
#include "mlir/Dialect/Traits.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

//===----------------------------------------------------------------------===//
// Broadcasting
//===----------------------------------------------------------------------===//

Value mlir::binade::importer::broadcastTo(ImplicitLocOpBuilder &b, Value value,
                                          ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  // A splat becomes a splat of the full shape, which copies no elements.
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(getElements(value)))
    return ConstantOp::create(static_cast<OpBuilder &>(b), value.getLoc(),
                              splat.resizeSplat(type.clone(shape)));
  auto axes = llvm::to_vector(
      llvm::seq<int64_t>(shape.size() - type.getRank(), shape.size()));
  return buildBroadcast(b, value, axes, shape);
}

static FailureOr<SmallVector<int64_t>> getCommonShape(Node &node,
                                                      ArrayRef<Value> values) {
  SmallVector<int64_t> shape;
  for (Value value : values) {
    SmallVector<int64_t> wider;
    if (!OpTrait::util::getBroadcastedShape(
            shape, cast<RankedTensorType>(value.getType()).getShape(), wider))
      return node.emitError() << "cannot broadcast " << values.front().getType()
                              << " and " << value.getType() << " to one shape";
    shape = wider;
  }
  return shape;
}

FailureOr<SmallVector<Value>>
mlir::binade::importer::broadcastInputs(Node &node, unsigned first) {
  SmallVector<Value> values = node.getInputs();
  values.erase(values.begin(), values.begin() + first);
  Type element = getElementTypeOrSelf(values.front().getType());
  for (Value value : values)
    if (getElementTypeOrSelf(value.getType()) != element)
      return node.emitError()
             << "expected inputs of one element type, got "
             << values.front().getType() << " and " << value.getType();
  FailureOr<SmallVector<int64_t>> shape = getCommonShape(node, values);
  if (failed(shape))
    return failure();
  for (Value &value : values)
    value = broadcastTo(node.b, value, *shape);
  return values;
}

LogicalResult mlir::binade::importer::requireFloats(Node &node,
                                                    unsigned index) {
  if (node.hasFloats(index))
    return success();
  return node.emitUnsupported()
         << "expected floating-point elements, got " << node.getType(index);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::importer::importIdentity(Node &node) {
  if (isDetached(node)) {
    Value x = node.getInput(0);
    auto detached = ReshapeOp::create(node.b, x.getType(), x);
    detached->setAttr(kDetachedAttr, node.b.getUnitAttr());
    return node.setResult(detached);
  }
  node.setOutput(0, node.getNamedInput(0));
  return success();
}

LogicalResult mlir::binade::importer::importNeg(Node &node) {
  if (node.hasFloats(0))
    return importUnary<NegOp>(node);
  Value zero = buildSplat(node.b, node.getType(0), 0.0);
  return node.setResult(SubOp::create(node.b, zero, node.getInput(0)));
}

LogicalResult mlir::binade::importer::importAbs(Node &node) {
  if (node.hasFloats(0))
    return importUnary<AbsOp>(node);
  Value x = node.getInput(0);
  if (node.getElement(0).isUnsignedInteger())
    return node.setResult(x);
  Value zero = buildSplat(node.b, x.getType(), 0.0);
  return node.setResult(
      MaxOp::create(node.b, x, SubOp::create(node.b, zero, x)));
}

LogicalResult mlir::binade::importer::importRelu(Node &node) {
  if (node.hasFloats(0))
    return importUnary<ReluOp>(node);
  Value x = node.getInput(0);
  return node.setResult(
      MaxOp::create(node.b, x, buildSplat(node.b, x.getType(), 0.0)));
}

LogicalResult mlir::binade::importer::importSign(Node &node) {
  if (node.hasFloats(0))
    return importUnary<SignOp>(node);
  Value x = node.getInput(0);
  Value atMost = MinOp::create(node.b, x, buildSplat(node.b, x.getType(), 1.0));
  if (node.getElement(0).isUnsignedInteger())
    return node.setResult(atMost);
  return node.setResult(
      MaxOp::create(node.b, atMost, buildSplat(node.b, x.getType(), -1.0)));
}

/// Fails if input 1 is a constant integer tensor with a zero.
static LogicalResult requireNoZero(Node &node) {
  DenseElementsAttr divisors = node.getConstant(1);
  if (!divisors || node.hasFloats(1) ||
      llvm::none_of(divisors.getValues<APInt>(),
                    [](const APInt &number) { return number.isZero(); }))
    return success();
  return node.emitUnsupported() << "divides by zero";
}

LogicalResult mlir::binade::importer::importDiv(Node &node) {
  if (failed(requireNoZero(node)))
    return failure();
  return importBinary<DivOp>(node);
}

/// Builds the remainder x - quotient * y.
static Value buildRemainder(ImplicitLocOpBuilder &b, Value x, Value y,
                            Value quotient) {
  return SubOp::create(b, x, MulOp::create(b, quotient, y));
}

/// Builds the remainder in f64 with the sign of the dividend. It is exact for
/// operands of at most 24 significant bits if the quotient is below 2^28.
static Value buildFloatRemainder(ImplicitLocOpBuilder &b, Value x, Value y) {
  Value zero = buildSplat(b, x.getType(), 0.0);
  Value quotient = DivOp::create(b, x, y);
  Value isNegative = CompareOp::create(b, quotient, zero, Comparison::Less);
  quotient = SelectOp::create(b, isNegative, CeilOp::create(b, quotient),
                              FloorOp::create(b, quotient));
  Value rest = buildRemainder(b, x, y, quotient);
  // If y is infinite, the remainder is x.
  Value infinity = buildSplat(b, x.getType(), INFINITY);
  Value isInfinite =
      CompareOp::create(b, AbsOp::create(b, y), infinity, Comparison::Equal);
  Value isFinite =
      CompareOp::create(b, AbsOp::create(b, x), infinity, Comparison::Less);
  rest = SelectOp::create(b, AndOp::create(b, isInfinite, isFinite), x, rest);
  return rest;
}

LogicalResult mlir::binade::importer::importMod(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  bool hasSignOfDividend = node.getInt("fmod", 0);
  FailureOr<SmallVector<Value>> sides = broadcastInputs(node);
  if (failed(sides) || failed(requireNoZero(node)))
    return failure();
  Value x = sides->front(), y = sides->back();
  Value rest;
  if (node.hasFloats(0)) {
    x = buildCast(b, x, b.getF64Type()), y = buildCast(b, y, b.getF64Type());
    rest = buildFloatRemainder(b, x, y);
  } else {
    rest = buildRemainder(b, x, y, DivOp::create(b, x, y));
  }
  if (!hasSignOfDividend) {
    // For the sign of the divisor, add y once if the signs differ.
    Value zero = buildSplat(b, x.getType(), 0.0);
    auto compare = [&](Value z, Comparison comparison) -> Value {
      return CompareOp::create(b, z, zero, comparison);
    };
    Value isOther = XorOp::create(b, compare(rest, Comparison::Less),
                                  compare(y, Comparison::Less));
    Value isZero = compare(rest, Comparison::Equal);
    isOther = AndOp::create(b, isOther, NotOp::create(b, isZero));
    rest = SelectOp::create(b, isOther, AddOp::create(b, rest, y), rest);
  }
  return node.setResult(buildCast(b, rest, node.getElement(0)));
}

/// Builds x to the power of integers by repeated squaring, one step per bit of
/// the exponent. A negative exponent gives 0, a truncated fraction, unless x is
/// 1 or -1.
static Value buildIntegerPower(ImplicitLocOpBuilder &b, Value x,
                               Value exponent) {
  Type type = x.getType();
  Value one = buildSplat(b, type, 1.0), zero = buildSplat(b, type, 0.0);
  Value nothing = buildSplat(b, exponent.getType(), 0.0);
  Type counted = getElementTypeOrSelf(exponent.getType());
  auto hasBit = [&](unsigned bit) -> Value {
    APInt mask = APInt::getOneBitSet(counted.getIntOrFloatBitWidth(), bit);
    Value masks = ConstantOp::create(
        b, DenseElementsAttr::get(cast<RankedTensorType>(exponent.getType()),
                                  mask));
    Value found = AndOp::create(b, exponent, masks);
    return NotOp::create(
        b, CompareOp::create(b, found, nothing, Comparison::Equal));
  };
  unsigned bits =
      counted.getIntOrFloatBitWidth() - (counted.isUnsignedInteger() ? 0 : 1);
  Value power = one, square = x;
  for (unsigned bit = 0; bit < bits; ++bit) {
    power = SelectOp::create(b, hasBit(bit), MulOp::create(b, power, square),
                             power);
    if (bit + 1 < bits)
      square = MulOp::create(b, square, square);
  }
  // Compare x itself with 1 and -1: in 8 bits, the square of 127 wraps to 1.
  auto equals = [&](Value y) -> Value {
    return CompareOp::create(b, x, y, Comparison::Equal);
  };
  Value isUnit =
      OrOp::create(b, equals(one), equals(buildSplat(b, type, -1.0)));
  Value sign = SelectOp::create(b, hasBit(0), x, one);
  Value isNegative = CompareOp::create(b, exponent, nothing, Comparison::Less);
  return SelectOp::create(b, isNegative,
                          SelectOp::create(b, isUnit, sign, zero), power);
}

/// Builds a power of integers. A constant exponent takes only the squares that
/// it needs.
static LogicalResult importIntegerPower(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  DenseElementsAttr exponents = node.getConstant(1);
  FailureOr<SmallVector<int64_t>> shape =
      getCommonShape(node, node.getInputs());
  if (failed(shape))
    return failure();
  Value square = broadcastTo(b, node.getInput(0), *shape);
  if (node.hasFloats(1)) {
    // Compute in f64, which represents the integers, and truncate.
    Type wide = b.getF64Type();
    Value power = PowOp::create(
        b, buildCast(b, square, wide),
        broadcastTo(b, buildCast(b, node.getInput(1), wide), *shape));
    return node.setResult(buildCast(b, power, node.getElement(0)));
  }
  int64_t exponent = -1; // Unknown, or different for each element.
  if (exponents && exponents.isSplat())
    exponent = unpack(exponents)[0].i;
  if (exponent < 0)
    return node.setResult(
        buildIntegerPower(b, square, broadcastTo(b, node.getInput(1), *shape)));
  Value power = buildSplat(b, square.getType(), 1.0);
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0)
      power = MulOp::create(b, power, square);
    square = MulOp::create(b, square, square);
  }
  return node.setResult(power);
}

LogicalResult mlir::binade::importer::importPow(Node &node) {
  if (!node.hasFloats(0))
    return importIntegerPower(node);
  Value base = node.getInput(0), exponent = node.getInput(1);
  exponent = buildCast(node.b, exponent, node.getElement(0));
  FailureOr<SmallVector<int64_t>> shape =
      getCommonShape(node, {base, exponent});
  if (failed(shape))
    return failure();
  return node.setResult(PowOp::create(node.b, broadcastTo(node.b, base, *shape),
                                      broadcastTo(node.b, exponent, *shape)));
}

LogicalResult mlir::binade::importer::importGelu(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  StringRef word = node.getString("approximate", "none");
  std::optional<Approximation> approximate = symbolizeApproximation(word);
  if (!approximate)
    return node.emitError() << "expected approximate to be 'none' or 'tanh', "
                            << "got " << quote(word);
  return node.setResult(
      GeluOp::create(node.b, node.getInput(0), *approximate, PrecisionAttr()));
}

//===----------------------------------------------------------------------===//
// Comparison, logic, selection, casts
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::importer::importComparison(Node &node,
                                                       Comparison comparison) {
  FailureOr<SmallVector<Value>> sides = broadcastInputs(node);
  if (failed(sides))
    return failure();
  return node.setResult(
      CompareOp::create(node.b, sides->front(), sides->back(), comparison));
}

LogicalResult mlir::binade::importer::importNot(Node &node) {
  return node.setResult(NotOp::create(node.b, node.getInput(0)));
}

LogicalResult mlir::binade::importer::importBitwiseNot(Node &node) {
  Value ones = buildSplat(node.b, node.getType(0), -1.0);
  return node.setResult(XorOp::create(node.b, node.getInput(0), ones));
}

LogicalResult mlir::binade::importer::importWhere(Node &node) {
  if (!node.getElement(0).isInteger(1))
    return node.emitError()
           << "expected a condition of bool, got " << node.getType(0);
  FailureOr<SmallVector<Value>> sides = broadcastInputs(node, 1);
  if (failed(sides))
    return failure();
  FailureOr<SmallVector<int64_t>> shape =
      getCommonShape(node, {node.getInput(0), sides->front()});
  if (failed(shape))
    return failure();
  auto broadcast = [&](Value value) {
    return broadcastTo(node.b, value, *shape);
  };
  return node.setResult(SelectOp::create(node.b, broadcast(node.getInput(0)),
                                         broadcast(sides->front()),
                                         broadcast(sides->back())));
}

/// Rounds `x` to a power of two: up, down or to the nearest, by `mode`. Values
/// out of range become the smallest or largest power if `saturates`, and
/// otherwise NaN.
static Value castToPower(ImplicitLocOpBuilder &b, Value x, Type power,
                         StringRef mode, bool saturates) {
  x = buildCast(b, x, b.getF32Type());
  Arithmetic a(b, x);
  if (saturates)
    x = a.min(a.max(x, 0x1p-127), 0x1p127);
  Value nearest = buildCast(b, buildCast(b, x, power), b.getF32Type());
  Value isOther = CompareOp::create(
      b, nearest, x, mode == "up" ? Comparison::Less : Comparison::Greater);
  Value other = a.mul(nearest, mode == "up" ? 2.0 : 0.5);
  if (mode != "nearest")
    nearest = a.select(isOther, other, nearest);
  return buildCast(b, nearest, power);
}

static LogicalResult castTo(Node &node, Type element) {
  bool saturates = node.getInt("saturate", 1);
  StringRef mode = node.getString("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest")
    return node.emitUnsupported() << "does not know round_mode " << quote(mode);
  Value x = node.getInput(0);
  if (isa<Float8E8M0FNUType>(element) && node.getElement(0) != element)
    return node.setResult(castToPower(node.b, x, element, mode, saturates));
  if (isa<Float8E8M0FNUType>(node.getElement(0)))
    x = buildCast(node.b, x, node.b.getF32Type()); // f32 represents all powers.
  if (isa<Float4E2M1FNType>(element) && node.hasFloats(0)) {
    // The format has no NaN: NaN becomes -0, as in ONNX's reference evaluator.
    Value isNumber = CompareOp::create(node.b, x, x, Comparison::Equal);
    Value none = buildSplat(node.b, x.getType(), -0.0);
    x = SelectOp::create(node.b, isNumber, x, none);
  }
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 8)
    return node.setResult(
        CastOp::create(node.b, node.getType(0).clone(element), x, saturates));
  if (!element.isInteger(1) || node.getElement(0) == element)
    return node.setResult(buildCast(node.b, x, element));
  // Nonzero elements become true; a cast would keep the lowest bit.
  Value zero = buildSplat(node.b, x.getType(), 0.0);
  Value isZero = CompareOp::create(node.b, x, zero, Comparison::Equal);
  return node.setResult(NotOp::create(node.b, isZero));
}

LogicalResult mlir::binade::importer::importCast(Node &node) {
  int64_t to = node.getInt("to", 0);
  Type element = getElementType(node.b.getContext(), to);
  if (!element)
    return node.emitUnsupported()
           << "attribute 'to': " << describeElementType(to);
  return castTo(node, element);
}

LogicalResult mlir::binade::importer::importCastLike(Node &node) {
  return castTo(node, node.getElement(1));
}

/// Only NaN is not equal to itself.
LogicalResult mlir::binade::importer::importIsNaN(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  Value x = node.getInput(0);
  Value isNumber = CompareOp::create(node.b, x, x, Comparison::Equal);
  return node.setResult(NotOp::create(node.b, isNumber));
}

LogicalResult mlir::binade::importer::importIsInf(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  Value x = node.getInput(0);
  auto is = [&](double value) -> Value {
    return CompareOp::create(node.b, x, buildSplat(node.b, x.getType(), value),
                             Comparison::Equal);
  };
  Value found;
  for (auto [name, value] : {std::pair("detect_negative", -INFINITY),
                             std::pair("detect_positive", INFINITY)})
    if (node.getInt(name, 1))
      found = found ? Value(OrOp::create(node.b, found, is(value))) : is(value);
  return node.setResult(
      found ? found
            : buildSplat(node.b, node.getType(0).clone(node.b.getI1Type()), 0));
}

LogicalResult mlir::binade::importer::importMean(Node &node) {
  FailureOr<SmallVector<Value>> values = broadcastInputs(node);
  if (failed(values) || failed(requireFloats(node)))
    return failure();
  Value sum = values->front();
  for (Value value : ArrayRef(*values).drop_front())
    sum = AddOp::create(node.b, sum, value);
  auto count = static_cast<double>(values->size());
  return node.setResult(
      DivOp::create(node.b, sum, buildSplat(node.b, sum.getType(), count)));
}
