//===- Bits.cpp - Import of bit operations --------------------------------===//

#include "../OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Builds 2^n for each element n of `distance` in [0, width), by a table
/// lookup. For signed integers the last power wraps to a negative value.
static Value buildPowers(ImplicitLocOpBuilder &b, Value distance,
                         unsigned width) {
  Type element = getElementTypeOrSelf(distance.getType());
  SmallVector<APInt> powers;
  for (unsigned n = 0; n < width; ++n)
    powers.push_back(APInt::getOneBitSet(width, n));
  auto type = RankedTensorType::get(width, element);
  Value table = ConstantOp::create(b, DenseElementsAttr::get(type, powers));
  return GatherOp::create(b, table, buildCast(b, distance, b.getI64Type()),
                          PrecisionAttr());
}

/// Builds a shift. A negative distance, or one of at least the width, gives 0;
/// to the right, it gives -1 for negative integers.
LogicalResult mlir::binade::importer::importBitShift(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  StringRef direction = node.getString("direction", "");
  FailureOr<SmallVector<Value>> sides = broadcastInputs(node);
  if (failed(sides))
    return failure();
  Value x = sides->front(), distance = sides->back();
  Type element = node.getElement(0);
  if ((direction != "LEFT" && direction != "RIGHT") ||
      !isa<IntegerType>(element) || element.isInteger(1))
    return node.emitError()
           << "expected integers and direction LEFT or RIGHT, "
           << "got " << node.getType(0) << " and " << quote(direction);
  unsigned width = element.getIntOrFloatBitWidth();
  bool isLeft = direction == "LEFT";
  Value zero = buildSplat(b, x.getType(), 0.0);
  // To the right, a signed integer has width - 1 bits besides the sign.
  bool hasSign = !element.isUnsignedInteger();
  Value end =
      buildSplat(b, x.getType(), isLeft || !hasSign ? width : width - 1);
  Value isInside = AndOp::create(
      b, CompareOp::create(b, distance, zero, Comparison::GreaterEqual),
      CompareOp::create(b, distance, end, Comparison::Less));
  Value powers =
      buildPowers(b, SelectOp::create(b, isInside, distance, zero), width);
  if (isLeft)
    return node.setResult(
        SelectOp::create(b, isInside, MulOp::create(b, x, powers), zero));
  if (!hasSign)
    return node.setResult(
        SelectOp::create(b, isInside, DivOp::create(b, x, powers), zero));
  // Division rounds toward 0, but a shift rounds down: invert the bits of
  // negative integers before and after.
  Value isNegative = CompareOp::create(b, x, zero, Comparison::Less);
  Value sign =
      SelectOp::create(b, isNegative, buildSplat(b, x.getType(), -1.0), zero);
  Value size = DivOp::create(b, XorOp::create(b, x, sign), powers);
  return node.setResult(
      SelectOp::create(b, isInside, XorOp::create(b, size, sign), sign));
}

/// Casts between integers of equal width (bool counts as 8 bits), and
/// reinterprets the bits of floats of 32 and 64 bits.
LogicalResult mlir::binade::importer::importBitCast(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t number = node.getInt("to", 0);
  Type to = getElementType(b.getContext(), number), from = node.getElement(0);
  if (!to)
    return node.emitUnsupported() << describeElementType(number);
  auto getBits = [](Type element) {
    return element.isInteger(1) ? 8 : element.getIntOrFloatBitWidth();
  };
  bool isToBool = to.isInteger(1) && from != to;
  bool isFloat = isa<FloatType>(from) || isa<FloatType>(to);
  if (getBits(from) != getBits(to) || isToBool ||
      (isFloat && from != to && getBits(to) < 32))
    return node.emitUnsupported()
           << "cannot reinterpret the bits of " << from << " as " << to;
  Value x = node.getInput(0);
  if (!isFloat || from == to)
    return node.setResult(buildCast(b, x, to));
  return node.setResult(BitcastOp::create(b, node.getType(0).clone(to), x));
}
