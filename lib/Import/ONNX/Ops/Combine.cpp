//===- Combine.cpp - Reductions and scans by elementwise ops --------------===//

#include "Combine.h"
#include "../OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

std::optional<Combination>
mlir::binade::importer::parseCombination(StringRef name) {
  return llvm::StringSwitch<std::optional<Combination>>(name)
      .Case("add", Combination::Add)
      .Case("mul", Combination::Mul)
      .Case("max", Combination::Max)
      .Case("min", Combination::Min)
      .Default(std::nullopt);
}

Value mlir::binade::importer::combine(ImplicitLocOpBuilder &b,
                                      Combination combination, Value lhs,
                                      Value rhs) {
  bool isBool = getElementTypeOrSelf(lhs.getType()).isInteger(1);
  switch (combination) {
  case Combination::Add:
    return AddOp::create(b, lhs, rhs);
  case Combination::Mul:
    return MulOp::create(b, lhs, rhs);
  case Combination::Max:
    return isBool ? Value(OrOp::create(b, lhs, rhs))
                  : MaxOp::create(b, lhs, rhs);
  case Combination::Min:
    return isBool ? Value(AndOp::create(b, lhs, rhs))
                  : MinOp::create(b, lhs, rhs);
  }
  llvm_unreachable("all combinations are handled");
}

/// Returns the smallest or largest value of type `element`.
static TypedAttr getExtreme(OpBuilder &b, Type element, bool isLargest) {
  if (auto format = dyn_cast<FloatType>(element))
    return b.getFloatAttr(
        format, APFloat::getInf(format.getFloatSemantics(), !isLargest));
  unsigned width = element.getIntOrFloatBitWidth();
  if (isUnsigned(element))
    return b.getIntegerAttr(element, isLargest ? APInt::getMaxValue(width)
                                               : APInt::getMinValue(width));
  return b.getIntegerAttr(element, isLargest ? APInt::getSignedMaxValue(width)
                                             : APInt::getSignedMinValue(width));
}

Value mlir::binade::importer::buildNeutral(ImplicitLocOpBuilder &b,
                                           Combination combination,
                                           RankedTensorType type) {
  switch (combination) {
  case Combination::Add:
    return buildSplat(b, type, 0.0);
  case Combination::Mul:
    return buildSplat(b, type, 1.0);
  case Combination::Max:
  case Combination::Min: {
    Attribute bound =
        getExtreme(b, type.getElementType(), combination == Combination::Min);
    return ConstantOp::create(b, DenseElementsAttr::get(type, bound));
  }
  }
  llvm_unreachable("all combinations are handled");
}

static RankedTensorType withLength(RankedTensorType type, int64_t axis,
                                   int64_t length) {
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = length;
  return type.clone(shape);
}

static Value buildConcat(ImplicitLocOpBuilder &b, ArrayRef<Value> parts,
                         int64_t axis) {
  auto type = cast<RankedTensorType>(parts.front().getType());
  int64_t length = 0;
  for (Value part : parts)
    length += cast<RankedTensorType>(part.getType()).getDimSize(axis);
  return ConcatOp::create(b, withLength(type, axis, length), parts, axis,
                          PrecisionAttr());
}

Value mlir::binade::importer::combineAlong(ImplicitLocOpBuilder &b,
                                           Combination combination, Value x,
                                           int64_t axis) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t length = type.getDimSize(axis);
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + axis);
  if (length == 0)
    return buildNeutral(b, combination, type.clone(shape));
  while (length > 1) {
    int64_t half = length / 2;
    Value both = combine(b, combination, buildSlice(b, x, axis, 0, half),
                         buildSlice(b, x, axis, half, half));
    x = length % 2 == 0
            ? both
            : buildConcat(b, {both, buildSlice(b, x, axis, 2 * half, 1)}, axis);
    length = half + length % 2;
  }
  return buildReshape(b, x, shape);
}

Value mlir::binade::importer::scanAlong(ImplicitLocOpBuilder &b,
                                        Combination combination, Value x,
                                        int64_t axis, bool isExclusive,
                                        bool isReverse) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t length = type.getDimSize(axis);
  auto shift = [&](int64_t distance) {
    Value fill = buildNeutral(b, combination, withLength(type, axis, distance));
    Value rest =
        buildSlice(b, x, axis, isReverse ? distance : 0, length - distance);
    return isReverse ? buildConcat(b, {rest, fill}, axis)
                     : buildConcat(b, {fill, rest}, axis);
  };
  if (isExclusive && length == 1)
    return buildNeutral(b, combination, type);
  if (isExclusive && length > 1)
    x = shift(1);
  // Each iteration doubles the number of elements that a result combines.
  for (int64_t distance = 1; distance < length; distance *= 2)
    x = combine(b, combination, x, shift(distance));
  return x;
}

static LogicalResult importRunning(Node &node, Combination combination) {
  ImplicitLocOpBuilder &b = node.b;
  FailureOr<SmallVector<int64_t>> given = node.getIntegers(1, "axis");
  if (failed(given))
    return failure();
  if (given->size() != 1)
    return node.emitError() << "expected one axis, got [" << *given << "]";
  FailureOr<int64_t> axis = node.normalizeAxis(given->front(), node.getRank(0));
  if (failed(axis))
    return failure();
  Value x = node.getInput(0);
  Type element = node.getElement(0);
  bool isNarrow = node.hasFloats(0) && element.getIntOrFloatBitWidth() < 32;
  if (isNarrow) // Round once, at the end.
    x = buildCast(b, x, b.getF32Type());
  x = scanAlong(b, combination, x, *axis, node.getInt("exclusive", 0),
                node.getInt("reverse", 0));
  return node.setResult(buildCast(b, x, element));
}

LogicalResult mlir::binade::importer::importCumSum(Node &node) {
  return importRunning(node, Combination::Add);
}

LogicalResult mlir::binade::importer::importCumProd(Node &node) {
  return importRunning(node, Combination::Mul);
}
