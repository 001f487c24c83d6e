//===- Fourier.cpp - DFT --------------------------------------------------===//
//
// Products with matrices of sines and cosines, so that gradients follow. The
// last axis, of one number or of a real and an imaginary part, is taken apart.
//
//===----------------------------------------------------------------------===//

#include "OpTable.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
/// From `inputs` numbers of a signal of `length` to `outputs`.
struct Transform {
  int64_t length, inputs, outputs;
  bool isInverse, isOneSided;

  /// How often the input `k` of an inverse transform of half a spectrum counts:
  /// also for its mirror image.
  double getWeight(int64_t k) const {
    if (!isInverse)
      return 1.0;
    bool isAlone = !isOneSided || k == 0 || 2 * k == length;
    return (isAlone ? 1.0 : 2.0) / static_cast<double>(length);
  }
};
} // namespace

/// weight * function(2 pi i o / length) for input i and output o.
static Value buildMatrix(ImplicitLocOpBuilder &b, const Transform &transform,
                         FloatType element, double (*function)(double)) {
  auto type =
      RankedTensorType::get({transform.inputs, transform.outputs}, element);
  SmallVector<Attribute> numbers;
  for (int64_t i = 0; i < transform.inputs; ++i)
    for (int64_t o = 0; o < transform.outputs; ++o) {
      // Both are below 2^16.
      double turns = static_cast<double>(i * o % transform.length) /
                     static_cast<double>(transform.length);
      numbers.push_back(b.getFloatAttr(
          element,
          transform.getWeight(i) * function(2.0 * std::numbers::pi * turns)));
    }
  return ConstantOp::create(b, DenseElementsAttr::get(type, numbers));
}

/// `x` with `length` entries of its last axis: the first ones, or with zeros.
static Value fitLast(ImplicitLocOpBuilder &b, Value x, int64_t length) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t last = type.getRank() - 1, given = type.getDimSize(last);
  if (given >= length)
    return buildSlice(b, x, last, 0, length);
  SmallVector<int64_t> shape(type.getShape());
  shape[last] = length;
  SmallVector<int64_t> offsets(shape.size(), 0), strides(shape.size(), 1);
  return PadOp::create(b, type.clone(shape), x, offsets, strides);
}

static FailureOr<int64_t> readAxis(Node &node) {
  int64_t rank = node.getRank(0), axis = node.getInt("axis", 1);
  if (node.getOpset() >= 20) {
    axis = -2;
    if (node.hasInput(2)) {
      FailureOr<SmallVector<int64_t>> given = node.getIntegers(2, "axis");
      if (failed(given) || given->size() != 1)
        return failure();
      axis = given->front();
    }
  }
  FailureOr<int64_t> normal = node.normalizeAxis(axis, rank);
  if (failed(normal) || *normal < rank - 1)
    return normal;
  return node.emitError() << "transforms along the axis of real and imaginary "
                             "parts";
}

static FailureOr<Transform> readTransform(Node &node, int64_t axis) {
  Transform transform;
  transform.isInverse = node.getInt("inverse", 0);
  transform.isOneSided = node.getInt("onesided", 0);
  int64_t given = node.getShape(0)[axis];
  bool isHalf = transform.isInverse && transform.isOneSided;
  transform.length = isHalf ? 2 * (given - 1) : given;
  if (node.hasInput(1)) {
    FailureOr<SmallVector<int64_t>> length = node.getIntegers(1, "dft_length");
    if (failed(length))
      return failure();
    if (length->size() != 1)
      return node.emitError()
             << "expected one dft_length, got [" << *length << "]";
    transform.length = length->front();
  }
  constexpr int64_t kLongest = 1 << 12; // The matrix has its square.
  if (transform.length < 1 || transform.length > kLongest)
    return node.emitError() << "expected a dft_length of 1 to " << kLongest
                            << ", got " << transform.length;
  int64_t half = transform.length / 2 + 1;
  transform.inputs = isHalf ? half : transform.length;
  transform.outputs =
      transform.isOneSided && !transform.isInverse ? half : transform.length;
  return transform;
}

LogicalResult mlir::binade::importer::importDFT(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  int64_t rank = type.getRank();
  if (failed(requireFloats(node)))
    return failure();
  if (rank < 2 || (type.getShape().back() != 1 && type.getShape().back() != 2))
    return node.emitError() << "expected a last axis of 1 or 2, got " << type;
  FailureOr<int64_t> axis = readAxis(node);
  if (failed(axis))
    return failure();
  FailureOr<Transform> read = readTransform(node, *axis);
  if (failed(read))
    return failure();
  const Transform &transform = *read;
  bool isComplex = type.getShape().back() == 2;
  bool isReal = transform.isOneSided && transform.isInverse; // The result.
  if (transform.isOneSided && isComplex != transform.isInverse)
    return node.emitError() << "with onesided expects "
                            << (transform.isInverse ? "complex" : "real")
                            << " numbers, got " << type;
  auto element = cast<FloatType>(type.getElementType());
  auto compute = element.isF64() ? element : cast<FloatType>(b.getF32Type());
  Value cosines = buildMatrix(b, transform, compute, std::cos),
        sines = buildMatrix(b, transform, compute, std::sin);
  SmallVector<int64_t> order = getAxisLast(rank - 1, *axis);
  SmallVector<int64_t> signal(type.getShape().drop_back());
  auto take = [&](int64_t part) {
    Value x = buildCast(b, node.getInput(0), compute);
    x = buildReshape(b, buildSlice(b, x, rank - 1, part, 1), signal);
    return fitLast(b, buildTranspose(b, x, order), transform.inputs);
  };
  bool hasFailed = false;
  auto multiply = [&](Value x, Value matrix) {
    FailureOr<Value> product = buildProduct(node, x, matrix, pinTo(compute));
    hasFailed |= failed(product);
    return product.value_or(Value());
  };
  // e^(j a) for the inverse, e^(-j a) otherwise.
  auto combine = [&](Value x, Value y, bool isSum) -> Value {
    return isSum ? Value(AddOp::create(b, x, y))
                 : Value(SubOp::create(b, x, y));
  };
  Value real = take(0), y, imaginary;
  Value first = multiply(real, cosines), second = multiply(real, sines);
  if (hasFailed)
    return failure();
  y = first;
  imaginary = transform.isInverse ? second : NegOp::create(b, second);
  if (isComplex) {
    Value other = take(1);
    Value third = multiply(other, sines), fourth = multiply(other, cosines);
    if (hasFailed)
      return failure();
    y = combine(first, third, !transform.isInverse);
    imaginary = AddOp::create(b, imaginary, fourth);
  }
  SmallVector<Value> parts;
  for (Value part :
       isReal ? SmallVector<Value>{y} : SmallVector<Value>{y, imaginary}) {
    part = buildTranspose(b, part, invertPermutationVector(order));
    SmallVector<int64_t> shape(
        cast<RankedTensorType>(part.getType()).getShape());
    shape.push_back(1);
    parts.push_back(buildReshape(b, part, shape));
  }
  Value result = parts.front();
  if (parts.size() > 1) {
    SmallVector<int64_t> shape(
        cast<RankedTensorType>(result.getType()).getShape());
    shape.back() = 2;
    result = ConcatOp::create(b, RankedTensorType::get(shape, compute), parts,
                              rank - 1);
  }
  return node.setResult(buildCast(b, result, element));
}
