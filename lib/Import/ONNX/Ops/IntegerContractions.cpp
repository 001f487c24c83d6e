//===- IntegerContractions.cpp - Import of integer matmuls ----------------===//
//
// Imports MatMulInteger, ConvInteger and their variants with scales. 8-bit
// values minus their zero points have at most 8 bits and a sign, so sums of 256
// products are exact in f32, in any order. Longer contractions are split, and
// the parts are added in i32.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Window.h"
#include "mlir/Dialect/Traits.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// The number of products whose sum is exact in f32.
static constexpr int64_t kMaxExactTerms = 256;

/// Broadcasts input `index` to `shape`. It has one element, one per entry of
/// `axis`, or a shape that broadcasts by numpy's rules.
static FailureOr<Value> broadcastInput(Node &node, unsigned index,
                                       ArrayRef<int64_t> shape, int64_t axis) {
  ImplicitLocOpBuilder &b = node.b;
  Value x = node.getInput(index);
  RankedTensorType type = node.getType(index);
  auto rank = static_cast<int64_t>(shape.size());
  if (type.getNumElements() == 1)
    return broadcastTo(b, buildReshape(b, x, {}), shape);
  if (type.getRank() == 1 && axis < rank && type.getDimSize(0) == shape[axis])
    return buildBroadcast(b, x, axis, shape);
  SmallVector<int64_t> wider;
  if (!OpTrait::util::getBroadcastedShape(type.getShape(), shape, wider) ||
      ArrayRef(wider) != shape)
    return node.emitError()
           << "cannot broadcast " << type << " to [" << shape << "]";
  return broadcastTo(b, x, shape);
}

/// Builds input `index`, of 8-bit integers, minus the zero points in input
/// `zero`, one for all elements or one per entry of `axis`. The result is f32.
static FailureOr<Value> center(Node &node, unsigned index, unsigned zero,
                               int64_t axis) {
  ImplicitLocOpBuilder &b = node.b;
  auto element = dyn_cast<IntegerType>(node.getElement(index));
  if (!element || element.getWidth() != 8)
    return node.emitError()
           << "expected quantized values of int8 or uint8, got "
           << node.getType(index);
  Value x = buildCast(b, node.getInput(index), b.getI32Type());
  if (node.hasInput(zero)) {
    if (node.getElement(zero) != element)
      return node.emitError() << "expected zero points of " << element
                              << ", got " << node.getType(zero);
    FailureOr<Value> zeros =
        broadcastInput(node, zero, node.getShape(index), axis);
    if (failed(zeros))
      return failure();
    x = SubOp::create(b, x, buildCast(b, *zeros, b.getI32Type()));
  }
  return buildCast(b, x, b.getF32Type());
}

/// Splits `count` entries into parts of at most `most`, and adds the results of
/// `build(first, size)` for all parts in i32.
static FailureOr<Value>
addParts(ImplicitLocOpBuilder &b, int64_t count, int64_t most,
         function_ref<FailureOr<Value>(int64_t first, int64_t size)> build) {
  Value sum;
  for (int64_t first = 0; first < count || !sum; first += most) {
    FailureOr<Value> part = build(first, std::min(most, count - first));
    if (failed(part))
      return failure();
    Value whole = buildCast(b, *part, b.getI32Type());
    sum = sum ? Value(AddOp::create(b, sum, whole)) : whole;
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

/// Builds the matmul of inputs `left` and `right`, minus their zero points, in
/// i32.
static FailureOr<Value> multiply(Node &node, unsigned left, unsigned leftZero,
                                 unsigned right, unsigned rightZero) {
  int64_t leftRank = node.getRank(left), rightRank = node.getRank(right);
  if (leftRank == 0 || rightRank == 0)
    return node.emitError() << "cannot multiply " << node.getType(left)
                            << " and " << node.getType(right);
  FailureOr<Value> x =
      center(node, left, leftZero, std::max<int64_t>(leftRank - 2, 0));
  FailureOr<Value> y = center(node, right, rightZero, rightRank - 1);
  if (failed(x) || failed(y))
    return failure();
  int64_t depthAxis = std::max<int64_t>(rightRank - 2, 0);
  int64_t depth = node.getShape(left).back();
  if (node.getShape(right)[depthAxis] != depth)
    return node.emitError() << "cannot multiply " << node.getType(left)
                            << " and " << node.getType(right);
  ImplicitLocOpBuilder &b = node.b;
  return addParts(b, depth, kMaxExactTerms, [&](int64_t first, int64_t size) {
    return buildProduct(node, buildSlice(b, *x, leftRank - 1, first, size),
                        buildSlice(b, *y, depthAxis, first, size),
                        pinTo(b.getF32Type()));
  });
}

LogicalResult mlir::binade::importer::importMatMulInteger(Node &node) {
  FailureOr<Value> product = multiply(node, 0, 2, 1, 3);
  return failed(product) ? failure() : node.setResult(*product);
}

/// Quantizes the i32 `product`: multiplies it by the scales of both sides, in
/// inputs `left` and `right`, divides by that of the result, in input `scale`,
/// and rounds to nearest even.
static LogicalResult requantize(Node &node, Value product, unsigned left,
                                int64_t leftAxis, unsigned right,
                                int64_t rightAxis, unsigned scale) {
  ImplicitLocOpBuilder &b = node.b;
  auto type = cast<RankedTensorType>(product.getType());
  ArrayRef<int64_t> shape = type.getShape();
  Type codes = node.getElement(scale + 1);
  if (!isa<IntegerType>(codes) || codes.getIntOrFloatBitWidth() != 8)
    return node.emitError() << "expected a zero point of int8 or uint8, got "
                            << node.getType(scale + 1);
  SmallVector<Value> factors;
  for (auto [index, axis] :
       {std::pair(left, leftAxis), std::pair(right, rightAxis),
        std::pair(scale, int64_t(0))}) {
    FailureOr<Value> factor = broadcastInput(node, index, shape, axis);
    if (failed(factor) || failed(requireFloats(node, index)))
      return failure();
    factors.push_back(buildCast(b, *factor, b.getF32Type()));
  }
  FailureOr<Value> zero = broadcastInput(node, scale + 1, shape, 0);
  if (failed(zero))
    return failure();
  Value factor =
      DivOp::create(b, MulOp::create(b, factors[0], factors[1]), factors[2]);
  Value y = MulOp::create(b, buildCast(b, product, b.getF32Type()), factor);
  y = AddOp::create(b, RoundOp::create(b, y),
                    buildCast(b, *zero, b.getF32Type()));
  return node.setResult(buildSaturated(b, y, codes));
}

LogicalResult mlir::binade::importer::importQLinearMatMul(Node &node) {
  FailureOr<Value> product = multiply(node, 0, 2, 3, 5);
  if (failed(product))
    return failure();
  int64_t rank = cast<RankedTensorType>(product->getType()).getRank();
  // A vector operand has no axis in the result.
  bool hasRows = node.getRank(0) > 1, hasColumns = node.getRank(3) > 1;
  return requantize(node, *product, 1, hasRows ? rank - 1 - hasColumns : rank,
                    4, hasColumns ? rank - 1 : rank, 6);
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// Returns channels [first, first + size) of each of `groups`.
static Value takeChannels(ImplicitLocOpBuilder &b, Value x, int64_t groups,
                          int64_t first, int64_t size) {
  SmallVector<int64_t> shape(cast<RankedTensorType>(x.getType()).getShape());
  SmallVector<int64_t> grouped = shape;
  grouped[1] /= groups;
  grouped.insert(grouped.begin() + 1, groups);
  shape[1] = groups * size;
  return buildReshape(
      b, buildSlice(b, buildReshape(b, x, grouped), 2, first, size), shape);
}

/// Builds the convolution of input 0 with input `weight` in i32.
static FailureOr<Value> convolve(Node &node, unsigned zero, unsigned weight,
                                 unsigned weightZero) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t groups = node.getInt("group", 1);
  FailureOr<Window> window = readConvolution(node, 0, weight, groups);
  if (failed(window))
    return failure();
  FailureOr<Value> x = center(node, 0, zero, 1);
  FailureOr<Value> w = center(node, weight, weightZero, 0);
  if (failed(x) || failed(w))
    return failure();
  int64_t places = ShapedType::getNumElements(window->kernel);
  if (places > kMaxExactTerms)
    return node.emitUnsupported()
           << "kernels of more than " << kMaxExactTerms
           << " places are not supported, got [" << window->kernel << "]";
  SmallVector<int64_t> shape = {node.getShape(0)[0], node.getShape(weight)[0]};
  llvm::append_range(shape, window->output);
  auto type = RankedTensorType::get(shape, b.getF32Type());
  return addParts(b, node.getShape(weight)[1], kMaxExactTerms / places,
                  [&](int64_t first, int64_t size) -> FailureOr<Value> {
                    return Value(ConvOp::create(
                        b, type, takeChannels(b, *x, groups, first, size),
                        buildSlice(b, *w, 1, first, size), Value(),
                        window->strides, window->low, window->high,
                        window->dilations, groups,
                        /*channels_last=*/false, pinTo(b.getF32Type())));
                  });
}

LogicalResult mlir::binade::importer::importConvInteger(Node &node) {
  FailureOr<Value> sums = convolve(node, 2, 1, 3);
  return failed(sums) ? failure() : node.setResult(*sums);
}

LogicalResult mlir::binade::importer::importQLinearConv(Node &node) {
  FailureOr<Value> sums = convolve(node, 2, 3, 5);
  if (failed(sums))
    return failure();
  if (node.hasInput(8)) {
    if (!node.getElement(8).isInteger(32) || node.getRank(8) != 1)
      return node.emitError()
             << "expected a bias of int32 for each channel, got "
             << node.getType(8);
    auto type = cast<RankedTensorType>(sums->getType());
    FailureOr<Value> bias = broadcastInput(node, 8, type.getShape(), 1);
    if (failed(bias))
      return failure();
    sums = Value(AddOp::create(node.b, *sums, *bias));
  }
  return requantize(node, *sums, 1, 1, 4, 1, 6);
}
