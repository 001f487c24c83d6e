//===- Random.cpp - Import of dropout and random values -------------------===//
//
// All random values come from the step's generator, with a separate stream per
// node. The seeds of nodes are ignored.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Arithmetic.h"
#include "onnx-ml.pb.h"
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Ratio and training mode must be constants.
LogicalResult mlir::binade::importer::importDropout(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  (void)node.getInt("seed", 0);
  // In opsets before 12 the ratio is an attribute, and nothing is dropped.
  double ratio = node.getFloat("ratio", 0.5f);
  bool isTraining = false;
  for (unsigned index : {1u, 2u}) {
    if (!node.hasInput(index))
      continue;
    StringRef what = index == 1 ? "ratio" : "training_mode";
    if (failed(node.requireConstant(index, what)))
      return failure();
    DenseElementsAttr value = node.getConstant(index);
    if (value.getNumElements() != 1)
      return node.emitError() << "expected one element as " << what << ", got "
                              << node.getType(index);
    if (index == 1 && node.hasFloats(1))
      ratio = (*value.getValues<APFloat>().begin()).convertToDouble();
    else if (index == 2 && node.getElement(2).isInteger(1))
      isTraining = *value.getValues<bool>().begin();
    else
      return node.emitError() << "expected a ratio of float and a "
                                 "training_mode of bool, got "
                              << node.getType(index);
  }
  if (!(ratio >= 0.0 && ratio < 1.0))
    return node.emitError() << "expected a ratio in [0, 1), got " << ratio;
  if (!isTraining || ratio == 0.0) {
    // Without dropout, the mask is all true.
    bool isBool = node.getOpset() >= 10;
    auto mask =
        isBool ? node.getType(0).clone(node.b.getI1Type()) : node.getType(0);
    if (node.hasOutput(1))
      node.setOutput(1, buildSplat(node.b, mask, 1.0));
    return importIdentity(node);
  }
  APFloat share(ratio);
  Value rng = node.graph.getRng();
  int64_t stream = node.graph.takeStream();
  // Dropout of ones with the same stream keeps the same elements, so it gives
  // the mask.
  if (node.hasOutput(1) && node.graph.isUsed(node.getOutputName(1))) {
    Value ones =
        buildSplat(node.b, node.getType(0).clone(node.b.getF32Type()), 1.0);
    Value kept =
        DropoutOp::create(node.b, ones, rng, share, stream, PrecisionAttr());
    node.setOutput(
        1, Arithmetic(node.b, kept).compare(kept, Comparison::Greater, 0.0));
  }
  return node.setResult(DropoutOp::create(node.b, node.getInput(0), rng, share,
                                          stream, PrecisionAttr()));
}

/// Returns the type of the result of a random op, by its attributes or its
/// input.
static FailureOr<RankedTensorType> getRandomType(Node &node) {
  bool isLike = node.getNumInputs() > 0;
  Type element = isLike ? node.getElement(0) : Type(node.b.getF32Type());
  if (int64_t number = node.getInt("dtype", 0)) {
    element = getElementType(node.b.getContext(), number);
    if (!element)
      return node.emitUnsupported() << describeElementType(number);
  }
  (void)node.getFloat("seed", 0.0f);
  if (isLike)
    return node.getType(0).clone(element);
  return getTensorType(node.getErrorLoc(), node.getInts("shape"), element);
}

/// Builds uniform multiples of 2^-24 in [0, 1) from a new stream.
static Value draw(Node &node, ArrayRef<int64_t> shape) {
  return buildRandomTensor(node.b, node.graph.getRng(), node.graph.takeStream(),
                           shape);
}

LogicalResult mlir::binade::importer::importRandomUniform(Node &node) {
  FailureOr<RankedTensorType> type = getRandomType(node);
  double low = node.getFloat("low", 0.0f), high = node.getFloat("high", 1.0f);
  if (failed(type))
    return failure();
  Value uniform = draw(node, type->getShape());
  Arithmetic a(node.b, uniform);
  return node.setResult(buildCast(
      node.b, a.add(a.mul(uniform, high - low), low), type->getElementType()));
}

/// Computes normal values from two uniform ones (Box & Muller, 1958).
LogicalResult mlir::binade::importer::importRandomNormal(Node &node) {
  FailureOr<RankedTensorType> type = getRandomType(node);
  double mean = node.getFloat("mean", 0.0f),
         scale = node.getFloat("scale", 1.0f);
  if (failed(type))
    return failure();
  Value radius = draw(node, type->getShape());
  Value turn = draw(node, type->getShape());
  Arithmetic a(node.b, radius);
  // Map to (0, 1], where the logarithm is finite.
  radius = a.sub(a.splat(1.0), radius);
  radius = a.sqrt(a.mul(LogOp::create(node.b, radius), -2.0));
  Value angle = CosOp::create(node.b, a.mul(turn, 2.0 * std::numbers::pi));
  Value normal = a.mul(radius, angle);
  return node.setResult(buildCast(node.b, a.add(a.mul(normal, scale), mean),
                                  type->getElementType()));
}

/// Builds 1 with the probability in input 0, otherwise 0.
LogicalResult mlir::binade::importer::importBernoulli(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  FailureOr<RankedTensorType> type = getRandomType(node);
  if (failed(type))
    return failure();
  ImplicitLocOpBuilder &b = node.b;
  Value uniform = draw(node, type->getShape());
  Value isOne = CompareOp::create(
      b, uniform, buildCast(b, node.getInput(0), b.getF32Type()),
      Comparison::Less);
  return node.setResult(buildCast(b, isOne, type->getElementType()));
}
