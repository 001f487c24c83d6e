//===- Quantize.cpp - Import of quantization ops --------------------------===//
//
// QuantizeLinear divides by a scale and rounds to nearest even, in the format
// of the scale or of attribute `precision`. No gradient flows through a
// quantization to integers.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "binade/IR/Diagnostics.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Broadcasts scales or zero points to the shape of input 0. `factors` has one
/// element for the whole tensor, one per entry of axis `given`, or one per
/// `block` entries of it.
static FailureOr<Value> broadcastFactors(Node &node, Value factors,
                                         int64_t given, int64_t block) {
  ImplicitLocOpBuilder &b = node.b;
  auto type = cast<RankedTensorType>(factors.getType());
  ArrayRef<int64_t> shape = node.getShape(0);
  if (type.getNumElements() == 1)
    return broadcastTo(b, buildReshape(b, factors, {}), shape);
  FailureOr<int64_t> axis = node.normalizeAxis(given, node.getRank(0));
  if (failed(axis))
    return failure();
  SmallVector<int64_t> blocks(shape);
  if (block > 0)
    blocks[*axis] = llvm::divideCeil(shape[*axis], block);
  bool isPerEntry =
      block == 0 && type.getRank() == 1 && type.getDimSize(0) == shape[*axis];
  if (!isPerEntry && (block == 0 || type.getShape() != ArrayRef(blocks)))
    return node.emitError()
           << "cannot scale " << node.getType(0) << " by " << type
           << " along axis " << *axis << " in blocks of " << block;
  if (isPerEntry)
    return buildBroadcast(b, factors, *axis, shape);
  // Repeat each factor for the length of a block; the last block may be
  // shorter.
  SmallVector<int64_t> axes, repeated = blocks, whole = blocks;
  for (int64_t i = 0; i < type.getRank(); ++i)
    axes.push_back(i <= *axis ? i : i + 1);
  repeated.insert(repeated.begin() + *axis + 1, block);
  whole[*axis] *= block;
  Value all =
      buildReshape(b, buildBroadcast(b, factors, axes, repeated), whole);
  return buildSlice(b, all, *axis, 0, shape[*axis]);
}

/// Returns the type that attribute `name` specifies, or `byDefault` if it is
/// missing.
static FailureOr<Type> readType(Node &node, StringRef name, Type byDefault) {
  int64_t number = node.getInt(name, 0);
  if (number == 0)
    return byDefault;
  if (Type type = getElementType(node.b.getContext(), number))
    return type;
  return node.emitUnsupported() << describeElementType(number);
}

/// Fails unless `type` is a float of at least 16 bits, in which arithmetic is
/// possible. Scales in a power-of-two format need attribute `name` to specify
/// such a type.
static LogicalResult requirePrecision(Node &node, StringRef name, Type type) {
  if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() >= 16)
    return success();
  return node.emitUnsupported() << "expected as " << name
                                << " floats of 16 bits or more, got " << type;
}

/// Returns the number of entries of the axis per scale; 0 for scales of a whole
/// tensor or of single entries.
static FailureOr<int64_t> readBlock(Node &node) {
  int64_t block = node.getInt("block_size", 0);
  if (block >= 0)
    return block;
  return node.emitError() << "expected a block_size of 0 or more, got "
                          << block;
}

/// Fails unless quantized values of `type` are floats of 4 or 8 bits, or
/// integers of 2 to `most` bits.
static LogicalResult requireCodes(Node &node, Type type, unsigned most) {
  unsigned width = type.getIntOrFloatBitWidth();
  if (width >= 2 && width <= (isa<FloatType>(type) ? 8 : most) &&
      !isa<Float8E8M0FNUType>(type))
    return success();
  return node.emitUnsupported()
         << "expected quantized values that are floats of 4 or 8 bits, or "
         << "integers of 2 to " << most << " bits, got " << type;
}

Value mlir::binade::importer::buildSaturated(ImplicitLocOpBuilder &b, Value x,
                                             Type codes) {
  unsigned width = codes.getIntOrFloatBitWidth();
  double least = isUnsigned(codes) ? 0.0 : std::ldexp(-1.0, width - 1);
  double most = least + std::ldexp(1.0, width) - 1.0;
  x = MaxOp::create(b, x, buildSplat(b, x.getType(), least));
  x = MinOp::create(b, x, buildSplat(b, x.getType(), most));
  return buildCast(b, x, codes);
}

/// Fails if a constant scale is not positive and finite: scaled values would be
/// NaN, infinite or of the wrong sign.
static LogicalResult requireScales(Node &node) {
  DenseElementsAttr scales = node.getConstant(1);
  if (!scales)
    return success();
  for (auto [index, scale] : llvm::enumerate(scales.getValues<APFloat>()))
    if (!scale.isFinite() || scale.isZero() || scale.isNegative())
      return node.emitUnsupported()
             << "expected scales above 0, got "
             << formatNumber(scale.convertToDouble()) << " as element " << index
             << " of " << quote(node.getInputName(1));
  return success();
}

/// Fails if a constant quantized value of a float format is NaN or infinite.
static LogicalResult requireNumbers(Node &node) {
  DenseElementsAttr codes = node.getConstant(0);
  if (!codes || !isa<FloatType>(codes.getElementType()))
    return success();
  for (auto [index, code] : llvm::enumerate(codes.getValues<APFloat>()))
    if (!code.isFinite())
      return node.emitUnsupported()
             << "expected finite quantized values, but element " << index
             << " of " << quote(node.getInputName(0)) << " is "
             << (code.isNaN() ? "NaN" : "infinite");
  return success();
}

LogicalResult mlir::binade::importer::importQuantizeLinear(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t axis = node.getInt("axis", 1);
  FailureOr<int64_t> block = readBlock(node);
  bool saturates = node.getInt("saturate", 1);
  FailureOr<Type> codes =
      readType(node, "output_dtype", b.getIntegerType(8, /*isSigned=*/false));
  FailureOr<Type> compute = readType(node, "precision", node.getElement(1));
  if (failed(block) || failed(codes) || failed(compute) ||
      failed(requireFloats(node, 1)) || failed(requireScales(node)))
    return failure();
  if (node.hasInput(2))
    codes = node.getElement(2);
  if (failed(requirePrecision(node, "precision", *compute)))
    return failure();
  FailureOr<Value> scale = broadcastFactors(
      node, buildCast(b, node.getInput(1), *compute), axis, *block);
  if (failed(scale) || failed(requireCodes(node, *codes, 16)))
    return failure();
  Value x = buildCast(b, node.getInput(0), *compute);
  x = DivOp::create(b, x, *scale);
  auto result = node.getType(0).clone(*codes);
  // The zero point of float formats is 0. Adding it turns -0 into 0.
  if (isa<FloatType>(*codes)) {
    if (node.hasInput(2))
      x = AddOp::create(b, x, buildSplat(b, x.getType(), 0.0));
    return node.setResult(CastOp::create(b, result, x, saturates));
  }
  x = buildCast(b, RoundOp::create(b, x), b.getF32Type());
  if (node.hasInput(2)) {
    FailureOr<Value> zero = broadcastFactors(
        node, buildCast(b, node.getInput(2), b.getF32Type()), axis, *block);
    if (failed(zero))
      return failure();
    x = AddOp::create(b, x, *zero);
  }
  return node.setResult(buildSaturated(b, x, *codes));
}

LogicalResult mlir::binade::importer::importDequantizeLinear(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t axis = node.getInt("axis", 1);
  FailureOr<int64_t> block = readBlock(node);
  FailureOr<Type> element = readType(node, "output_dtype", node.getElement(1));
  if (failed(block) || failed(element) ||
      failed(requireCodes(node, node.getElement(0), 32)) ||
      failed(requireFloats(node, 1)) ||
      failed(requirePrecision(node, "output_dtype", *element)) ||
      failed(requireScales(node)) || failed(requireNumbers(node)))
    return failure();
  Value x = node.getInput(0);
  if (!node.hasFloats(0)) {
    x = buildCast(b, x, b.getI32Type());
    if (node.hasInput(2)) {
      FailureOr<Value> zero = broadcastFactors(
          node, buildCast(b, node.getInput(2), b.getI32Type()), axis, *block);
      if (failed(zero))
        return failure();
      x = SubOp::create(b, x, *zero);
    }
  }
  x = buildCast(b, x, b.getF32Type());
  FailureOr<Value> scale = broadcastFactors(
      node, buildCast(b, node.getInput(1), b.getF32Type()), axis, *block);
  if (failed(scale))
    return failure();
  return node.setResult(buildCast(b, MulOp::create(b, x, *scale), *element));
}

/// Quantizes to u8 over the range of the elements, extended to include 0. The
/// range of an all-zero tensor has length 1.
LogicalResult mlir::binade::importer::importDynamicQuantizeLinear(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  if (!node.getElement(0).isF32())
    return node.emitError()
           << "expected elements of float, got " << node.getElement(0);
  Value x = node.getInput(0);
  auto type = RankedTensorType::get({}, b.getF32Type());
  Value none = buildSplat(b, type, 0.0);
  auto extend = [&](Value x) -> Value {
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, node.getRank(0)));
    Value largest = axes.empty() ? x : ReduceMaxOp::create(b, x, axes);
    return MaxOp::create(b, largest, none);
  };
  bool isEmpty = node.getType(0).getNumElements() == 0;
  Value most = isEmpty ? none : extend(x);
  // The minimum, negated.
  Value least = isEmpty ? none : extend(NegOp::create(b, x));
  Value range = AddOp::create(b, most, least);
  Value isZero = CompareOp::create(b, range, none, Comparison::Equal);
  range = SelectOp::create(b, isZero, buildSplat(b, type, 1.0), range);
  Value scale = DivOp::create(b, range, buildSplat(b, type, 255.0));
  Type codes = b.getIntegerType(8, /*isSigned=*/false);
  Value point = buildSaturated(
      b, RoundOp::create(b, DivOp::create(b, least, scale)), codes);
  ArrayRef<int64_t> shape = node.getShape(0);
  Value rounded = RoundOp::create(
      b, DivOp::create(b, x, buildBroadcast(b, scale, {}, shape)));
  Value moved = AddOp::create(
      b, rounded,
      buildBroadcast(b, buildCast(b, point, b.getF32Type()), {}, shape));
  node.setOutput(0, buildSaturated(b, moved, codes));
  node.setOutput(1, scale);
  node.setOutput(2, point);
  return success();
}
