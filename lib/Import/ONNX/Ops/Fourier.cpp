//===- Fourier.cpp - Import of DFT and STFT -------------------------------===//
//
// Transforms are matmuls with matrices of sines and cosines, so that autodiff
// can derive gradients. The last axis, of a real part or of a real and an
// imaginary part, is split into separate tensors.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Indexing.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
/// A transform of length `length` from `inputs` to `outputs` elements.
struct Transform {
  int64_t length, inputs, outputs;
  bool isInverse, isOneSided;

  /// Sets all lengths from that of the transform; fails if the matrices would
  /// be too large.
  LogicalResult setLength(Node &node, int64_t newLength) {
    // The matrix has the square of this many elements.
    constexpr int64_t kMaxLength = 1 << 12;
    length = newLength;
    if (length < 1 || length > kMaxLength)
      return node.emitUnsupported() << "expected a dft_length of 1 to "
                                    << kMaxLength << ", got " << length;
    int64_t half = length / 2 + 1;
    inputs = isInverse && isOneSided ? half : length;
    outputs = isOneSided && !isInverse ? half : length;
    return success();
  }

  /// Returns the weight of input `k` of an inverse transform. In a one-sided
  /// spectrum, an input also counts for its mirror image.
  double getWeight(int64_t k) const {
    if (!isInverse)
      return 1.0;
    bool isAlone = !isOneSided || k == 0 || 2 * k == length;
    return (isAlone ? 1.0 : 2.0) / static_cast<double>(length);
  }
};
} // namespace

/// Builds the matrix weight(i) * function(2 pi i o / length) for input i and
/// output o.
static Value buildMatrix(ImplicitLocOpBuilder &b, const Transform &transform,
                         FloatType element, double (*function)(double)) {
  auto type =
      RankedTensorType::get({transform.inputs, transform.outputs}, element);
  SmallVector<Attribute> numbers;
  for (int64_t i = 0; i < transform.inputs; ++i)
    for (int64_t o = 0; o < transform.outputs; ++o) {
      // Both are at most 2^12, so the product does not overflow.
      double turns = static_cast<double>(i * o % transform.length) /
                     static_cast<double>(transform.length);
      numbers.push_back(b.getFloatAttr(
          element,
          transform.getWeight(i) * function(2.0 * std::numbers::pi * turns)));
    }
  return ConstantOp::create(b, DenseElementsAttr::get(type, numbers));
}

/// Truncates or zero-pads the last axis of `x` to `length`.
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
  return node.emitUnsupported()
         << "transforms along the axis of real and imaginary "
            "parts";
}

static FailureOr<Transform> readTransform(Node &node, int64_t axis) {
  Transform transform;
  transform.isInverse = node.getInt("inverse", 0);
  transform.isOneSided = node.getInt("onesided", 0);
  int64_t given = node.getShape(0)[axis];
  bool isHalf = transform.isInverse && transform.isOneSided;
  int64_t number = isHalf ? 2 * (given - 1) : given;
  if (node.hasInput(1)) {
    FailureOr<SmallVector<int64_t>> length = node.getIntegers(1, "dft_length");
    if (failed(length))
      return failure();
    if (length->size() != 1)
      return node.emitError()
             << "expected one dft_length, got [" << *length << "]";
    number = length->front();
  }
  if (failed(transform.setLength(node, number)))
    return failure();
  return transform;
}

/// Transforms a real and, if the signal is complex, an imaginary part along
/// their last axes. Returns one part or both.
static FailureOr<SmallVector<Value>> buildTransform(Node &node,
                                                    const Transform &transform,
                                                    ArrayRef<Value> signal,
                                                    FloatType compute) {
  ImplicitLocOpBuilder &b = node.b;
  Value cosines = buildMatrix(b, transform, compute, std::cos),
        sines = buildMatrix(b, transform, compute, std::sin);
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
  Value real = multiply(signal[0], cosines),
        second = multiply(signal[0], sines);
  if (hasFailed)
    return failure();
  Value imaginary = transform.isInverse ? second : NegOp::create(b, second);
  if (signal.size() > 1) {
    Value third = multiply(signal[1], sines),
          fourth = multiply(signal[1], cosines);
    if (hasFailed)
      return failure();
    real = combine(real, third, !transform.isInverse);
    imaginary = AddOp::create(b, imaginary, fourth);
  }
  bool isReal = transform.isOneSided && transform.isInverse;
  return isReal ? SmallVector<Value>{real}
                : SmallVector<Value>{real, imaginary};
}

/// Concatenates `parts` along a new last axis.
static Value joinParts(ImplicitLocOpBuilder &b, ArrayRef<Value> parts) {
  auto type = cast<RankedTensorType>(parts.front().getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.push_back(1);
  auto columns = llvm::map_to_vector(
      parts, [&](Value part) { return buildReshape(b, part, shape); });
  if (columns.size() == 1)
    return columns.front();
  shape.back() = static_cast<int64_t>(columns.size());
  return ConcatOp::create(b, type.clone(shape), columns, type.getRank());
}

/// Returns the type that transforms are computed in.
static FloatType getCompute(Node &node) {
  auto element = cast<FloatType>(node.getElement(0));
  return element.isF64() ? element : cast<FloatType>(node.b.getF32Type());
}

/// Fails unless input 0 is a real or complex signal, with its parts along the
/// last axis.
static LogicalResult requireSignal(Node &node) {
  RankedTensorType type = node.getType(0);
  if (failed(requireFloats(node)))
    return failure();
  if (type.getRank() < 2 ||
      (type.getShape().back() != 1 && type.getShape().back() != 2))
    return node.emitError() << "expected a last axis of 1 or 2, got " << type;
  return success();
}

/// Returns the real and imaginary parts of input 0, without the last axis.
static SmallVector<Value> takeParts(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  ArrayRef<int64_t> shape = node.getShape(0);
  Value x = buildCast(b, node.getInput(0), getCompute(node));
  SmallVector<Value> parts;
  for (int64_t part = 0; part < shape.back(); ++part)
    parts.push_back(buildReshape(
        b, buildSlice(b, x, node.getRank(0) - 1, part, 1), shape.drop_back()));
  return parts;
}

LogicalResult mlir::binade::importer::importDFT(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  if (failed(requireSignal(node)))
    return failure();
  FailureOr<int64_t> axis = readAxis(node);
  if (failed(axis))
    return failure();
  FailureOr<Transform> transform = readTransform(node, *axis);
  if (failed(transform))
    return failure();
  SmallVector<Value> parts = takeParts(node);
  if (transform->isOneSided && (parts.size() > 1) != transform->isInverse)
    return node.emitUnsupported() << "with onesided expects "
                                  << (transform->isInverse ? "complex" : "real")
                                  << " numbers, got " << node.getType(0);
  SmallVector<int64_t> order = getAxisLast(node.getRank(0) - 1, *axis);
  for (Value &part : parts)
    part = fitLast(b, buildTranspose(b, part, order), transform->inputs);
  auto made = buildTransform(node, *transform, parts, getCompute(node));
  if (failed(made))
    return failure();
  for (Value &part : *made)
    part = buildTranspose(b, part, invertPermutationVector(order));
  return node.setResult(buildCast(b, joinParts(b, *made), node.getElement(0)));
}

/// Transforms the frames of a signal, multiplied by a window.
LogicalResult mlir::binade::importer::importSTFT(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  if (failed(requireSignal(node)))
    return failure();
  RankedTensorType type = node.getType(0);
  bool isComplex = type.getShape().back() == 2;
  Transform transform;
  transform.isInverse = false;
  transform.isOneSided = node.getInt("onesided", 1);
  FailureOr<SmallVector<int64_t>> step = node.getIntegers(1, "frame_step"),
                                  length = SmallVector<int64_t>{};
  if (node.hasInput(3))
    length = node.getIntegers(3, "frame_length");
  else
    length->push_back(node.hasInput(2) ? node.getType(2).getNumElements()
                                       : type.getDimSize(1));
  if (failed(step) || failed(length))
    return failure();
  if (type.getRank() != 3 || step->size() != 1 || length->size() != 1 ||
      step->front() < 1 || length->front() > type.getDimSize(1))
    return node.emitUnsupported()
           << "cannot take frames of [" << *length << "] numbers in steps of ["
           << *step << "] from " << type;
  if (failed(transform.setLength(node, length->front())))
    return failure();
  if (transform.isOneSided && isComplex)
    return node.emitUnsupported()
           << "with onesided expects real numbers, got " << type;
  if (node.hasInput(2) && node.getType(2) != type.clone({transform.length}))
    return node.emitError()
           << "expected a window of type " << type.clone({transform.length})
           << ", got " << node.getType(2);
  int64_t frames = (type.getDimSize(1) - transform.length) / step->front() + 1;
  if (failed(node.checkCount(frames, kMaxNumbers / transform.length,
                             "places of frames")))
    return failure();
  SmallVector<int64_t> places;
  for (int64_t frame = 0; frame < frames; ++frame)
    for (int64_t i = 0; i < transform.length; ++i)
      places.push_back(frame * step->front() + i);
  SmallVector<int64_t> shape = {type.getDimSize(0), frames, transform.length};
  SmallVector<Value> parts = takeParts(node);
  for (Value &part : parts) {
    part = buildReshape(b, takeAlong(b, part, places, 1), shape);
    if (node.hasInput(2)) {
      Value window = buildCast(b, node.getInput(2), getCompute(node));
      part = MulOp::create(b, part, broadcastTo(b, window, shape));
    }
  }
  auto made = buildTransform(node, transform, parts, getCompute(node));
  if (failed(made))
    return failure();
  return node.setResult(buildCast(b, joinParts(b, *made), node.getElement(0)));
}
