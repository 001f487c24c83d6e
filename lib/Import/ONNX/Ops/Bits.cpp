//===- Bits.cpp - BitShift, BitCast ---------------------------------------===//

#include "../OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// 2^n for each element n of `distance` in [0, width), by a table; the last
/// power is negative where there are negative ones.
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

/// A distance of no bit, or of more than there are, leaves 0, or -1 of what is
/// negative and goes to the right.
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
  // To the right, the last bit that is left may be the sign.
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
  // A quotient is rounded toward 0, a shift down: bits are turned around it.
  Value isNegative = CompareOp::create(b, x, zero, Comparison::Less);
  Value sign =
      SelectOp::create(b, isNegative, buildSplat(b, x.getType(), -1.0), zero);
  Value size = DivOp::create(b, XorOp::create(b, x, sign), powers);
  return node.setResult(
      SelectOp::create(b, isInside, XorOp::create(b, size, sign), sign));
}

/// Integers of one width are cast, bool, which has a byte, too; floats have ops
/// that know their bits from 32 on.
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
           << "cannot take the bits of " << from << " as " << to;
  Value x = node.getInput(0);
  if (!isFloat || from == to)
    return node.setResult(buildCast(b, x, to));
  return node.setResult(BitcastOp::create(b, node.getType(0).clone(to), x));
}
