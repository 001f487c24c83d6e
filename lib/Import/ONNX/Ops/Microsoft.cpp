//===- Microsoft.cpp - Ops of ONNX Runtime's training graphs --------------===//
//
// Imports ops of the domain com.microsoft. Gradient ops of ONNX Runtime map to
// those of the dialect; fused ops are decomposed.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Arithmetic.h"
#include "Indexing.h"
#include "NormRows.h"
#include "binade/IR/Movement.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Fails unless inputs 0 and 1 are floats of one type.
static LogicalResult requirePair(Node &node) {
  if (node.hasFloats(0) && node.getType(0) == node.getType(1))
    return success();
  return node.emitError() << "expected a gradient and a value of one type of "
                             "floats, got "
                          << node.getType(0) << " and " << node.getType(1);
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::importer::importScale(Node &node) {
  bool isDown = node.getInt("scale_down", 0);
  if (failed(requireFloats(node)))
    return failure();
  if (node.getType(1).getNumElements() != 1)
    return node.emitError()
           << "expected one element as scale, got " << node.getType(1);
  Value x = node.getInput(0);
  Value scale = buildCast(node.b, buildReshape(node.b, node.getInput(1), {}),
                          node.getElement(0));
  scale = broadcastTo(node.b, scale, node.getShape(0));
  return node.setResult(isDown ? Value(DivOp::create(node.b, x, scale))
                               : MulOp::create(node.b, x, scale));
}

LogicalResult mlir::binade::importer::importReluGrad(Node &node) {
  if (failed(requirePair(node)))
    return failure();
  return node.setResult(
      ReluGradOp::create(node.b, node.getInput(0), node.getInput(1)));
}

static LogicalResult importGeluGradBy(Node &node, Approximation approximation) {
  if (failed(requirePair(node)))
    return failure();
  return node.setResult(GeluGradOp::create(node.b, node.getInput(0),
                                           node.getInput(1), approximation));
}

LogicalResult mlir::binade::importer::importGeluGrad(Node &node) {
  return importGeluGradBy(node, Approximation::None);
}

LogicalResult mlir::binade::importer::importFastGeluGrad(Node &node) {
  return importGeluGradBy(node, Approximation::Tanh);
}

/// Builds the tanh approximation of GELU of input 0, plus input 1 as bias along
/// the last axis.
LogicalResult mlir::binade::importer::importFastGelu(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  if (failed(requireFloats(node)))
    return failure();
  Value x = node.getInput(0);
  if (node.hasInput(1)) {
    FailureOr<SmallVector<Value>> sides = broadcastInputs(node);
    if (failed(sides) || sides->front().getType() != x.getType())
      return node.emitError() << "expected a bias for " << node.getType(0)
                              << ", got " << node.getType(1);
    x = AddOp::create(b, x, sides->back());
  }
  return node.setResult(
      GeluOp::create(b, x, Approximation::Tanh, PrecisionAttr()));
}

/// Builds x sigmoid(alpha x).
LogicalResult mlir::binade::importer::importQuickGelu(Node &node) {
  double alpha = node.getFloat("alpha", 1.702f);
  return importFunction(node, [&](Arithmetic &a) { return a.swish(alpha); });
}

/// Builds dy (s + alpha x s (1 - s)) with s = sigmoid(alpha x).
LogicalResult mlir::binade::importer::importQuickGeluGrad(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  double alpha = node.getFloat("alpha", 1.702f);
  if (failed(requirePair(node)))
    return failure();
  if (alpha == 1.0)
    return node.setResult(
        SiluGradOp::create(b, node.getInput(0), node.getInput(1)));
  Arithmetic a(b, node.getInput(1));
  Value scaled = a.mul(a.x, alpha), s = SigmoidOp::create(b, scaled);
  Value rest = a.mul(scaled, a.sub(a.splat(1.0), s));
  return node.setResult(a.mul(node.getInput(0), a.mul(s, a.add(rest, 1.0))));
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::importer::importFusedMatMul(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  double alpha = node.getFloat("alpha", 1.0f);
  if (node.getInt("transBatchA", 0) || node.getInt("transBatchB", 0))
    return node.emitError() << "transBatchA and transBatchB are not supported";
  auto side = [&](unsigned index, StringRef name) {
    Value x = node.getInput(index);
    bool isTransposed = node.getInt(name, 0);
    return isTransposed && node.getRank(index) >= 2
               ? buildTranspose(b, x, getSwapOfLastAxes(x.getType()))
               : x;
  };
  FailureOr<Value> product =
      buildProduct(node, side(0, "transA"), side(1, "transB"));
  if (failed(product))
    return failure();
  Arithmetic a(b, *product);
  return node.setResult(a.mul(*product, alpha));
}

//===----------------------------------------------------------------------===//
// Softmax and norms
//===----------------------------------------------------------------------===//

template <typename Op> static LogicalResult importGradOverAxis(Node &node) {
  int64_t rank = node.getRank(0);
  FailureOr<int64_t> axis = node.normalizeAxis(node.getInt("axis", -1), rank);
  if (failed(axis) || failed(requirePair(node)))
    return failure();
  SmallVector<int64_t> last = getAxisLast(rank, *axis);
  Value dx = Op::create(
      node.b, node.getType(0).clone(applyPermutation(node.getShape(0), last)),
      buildTranspose(node.b, node.getInput(0), last),
      buildTranspose(node.b, node.getInput(1), last), PrecisionAttr());
  return node.setResult(
      buildTranspose(node.b, dx, invertPermutationVector(last)));
}

LogicalResult mlir::binade::importer::importSoftmaxGrad(Node &node) {
  return importGradOverAxis<SoftmaxGradOp>(node);
}

LogicalResult mlir::binade::importer::importLogSoftmaxGrad(Node &node) {
  return importGradOverAxis<LogSoftmaxGradOp>(node);
}

/// Checks the inputs of a gradient of a norm: the gradient, x, the scale, and
/// statistics with one element per row.
static LogicalResult checkNormGrad(Node &node, const NormRows &rows) {
  if (failed(requirePair(node)))
    return failure();
  int64_t count = ShapedType::getNumElements(rows.leading());
  for (unsigned index = 2; index < node.getNumInputs(); ++index)
    if (!node.hasFloats(index) || node.getType(index).getNumElements() !=
                                      (index == 2 ? rows.length : count))
      return node.emitError()
             << "expected " << (index == 2 ? rows.length : count)
             << " elements as input " << index << ", got "
             << node.getType(index);
  return success();
}

LogicalResult mlir::binade::importer::importLayerNormalizationGrad(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  (void)node.getFloat("epsilon", 1e-5f); // The deviations include it.
  (void)node.getInt("stash_type", 1);
  FailureOr<NormRows> rows = readRows(node);
  if (failed(rows) || failed(checkNormGrad(node, *rows)))
    return failure();
  auto inRows = [&](unsigned index) {
    return buildReshape(b, node.getInput(index), rows->shape);
  };
  auto perRow = [&](unsigned index) {
    Value x = buildReshape(b, node.getInput(index), rows->leading());
    return buildCast(b, x, b.getF32Type());
  };
  Value dy = inRows(0), x = inRows(1), mean = perRow(3), rstd = perRow(4);
  Value scale = buildReshape(b, node.getInput(2), rows->length);
  Value dx =
      LayerNormGradOp::create(b, dy, x, scale, mean, rstd, PrecisionAttr());
  auto parameters =
      LayerNormParamGradOp::create(b, dy, x, mean, rstd, PrecisionAttr());
  auto setParameter = [&](unsigned index, Value gradient) {
    gradient = buildReshape(b, gradient, node.getShape(2));
    node.setOutput(index, buildCast(b, gradient, node.getElement(2)));
  };
  setParameter(1, parameters.getDscale());
  setParameter(2, parameters.getDbias());
  return node.setResult(buildReshape(b, dx, node.getShape(1)));
}

/// Imports an RMS norm, whose second output is the reciprocal deviation.
LogicalResult
mlir::binade::importer::importSimplifiedLayerNormalization(Node &node) {
  FailureOr<NormRows> rows = readRows(node);
  if (failed(rows))
    return failure();
  FailureOr<RmsNormOp> norm = importRmsNorm(node, *rows);
  if (failed(norm))
    return failure();
  if (node.hasOutput(1))
    node.setOutput(1, rows->expand(node.b, norm->getRstd()));
  return success();
}

LogicalResult
mlir::binade::importer::importSimplifiedLayerNormalizationGrad(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  (void)node.getFloat("epsilon", 1e-5f); // The deviations include it.
  (void)node.getInt("stash_type", 1);
  FailureOr<NormRows> rows = readRows(node);
  if (failed(rows) || failed(checkNormGrad(node, *rows)))
    return failure();
  Value dy = buildReshape(b, node.getInput(0), rows->shape),
        x = buildReshape(b, node.getInput(1), rows->shape),
        scale = buildReshape(b, node.getInput(2), rows->length),
        rstd = buildCast(b, buildReshape(b, node.getInput(3), rows->leading()),
                         b.getF32Type());
  Value dx = RmsNormGradOp::create(b, dy, x, scale, rstd, PrecisionAttr());
  Value dscale = RmsNormScaleGradOp::create(b, dy, x, rstd, PrecisionAttr());
  dscale = buildReshape(b, dscale, node.getShape(2));
  node.setOutput(1, buildCast(b, dscale, node.getElement(2)));
  dx = buildCast(b, buildReshape(b, dx, node.getShape(1)), node.getElement(1));
  return node.setResult(dx);
}

//===----------------------------------------------------------------------===//
// Gathers and concatenation
//===----------------------------------------------------------------------===//

/// Returns a type with the shape in input 0 and the element type of input 2.
static FailureOr<RankedTensorType> readShape(Node &node) {
  FailureOr<SmallVector<int64_t>> shape = node.getIntegers(0, "shape");
  if (failed(shape) || failed(requireFloats(node, 2)) ||
      failed(requireIndices(node, 1)))
    return failure();
  return getTensorType(node.getErrorLoc(), *shape, node.getElement(2));
}

LogicalResult mlir::binade::importer::importGatherGrad(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  FailureOr<RankedTensorType> type = readShape(node);
  if (failed(type))
    return failure();
  int64_t rank = type->getRank(), places = node.getRank(1);
  FailureOr<int64_t> axis = node.normalizeAxis(node.getInt("axis", 0), rank);
  if (failed(axis))
    return failure();
  SmallVector<int64_t> expected(type->getShape().take_front(*axis));
  llvm::append_range(expected, node.getShape(1));
  llvm::append_range(expected, type->getShape().drop_front(*axis + 1));
  if (node.getShape(2) != ArrayRef(expected))
    return node.emitError()
           << "expected a gradient [" << ArrayRef<int64_t>(expected)
           << "], got " << node.getType(2);
  // Move the axes of the indices, and the axis of the table, to the front.
  SmallVector<int64_t> first, table = {*axis}, back;
  for (int64_t i = 0; i < places; ++i)
    first.push_back(*axis + i);
  for (int64_t i = 0; i < rank + places - 1; ++i)
    if (i < *axis || i >= *axis + places)
      first.push_back(i);
  for (int64_t i = 0; i < rank; ++i)
    if (i != *axis)
      table.push_back(i);
  Value rows = GatherGradOp::create(
      b, type->clone(applyPermutation(type->getShape(), table)),
      buildTranspose(b, node.getInput(2), first), node.getInput(1),
      PrecisionAttr());
  return node.setResult(
      buildTranspose(b, rows, invertPermutationVector(table)));
}

LogicalResult mlir::binade::importer::importGatherNDGrad(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t batch = node.getInt("batch_dims", 0);
  FailureOr<RankedTensorType> type = readShape(node);
  if (failed(type))
    return failure();
  ArrayRef<int64_t> indices = node.getShape(1);
  int64_t counted = batch + (indices.empty() ? 0 : indices.back());
  SmallVector<int64_t> expected;
  bool fits = !indices.empty() && batch >= 0 && counted > batch &&
              counted <= type->getRank() &&
              batch < static_cast<int64_t>(indices.size());
  if (fits) {
    llvm::append_range(expected, indices.drop_back());
    llvm::append_range(expected, type->getShape().drop_front(counted));
    fits = indices.take_front(batch) == type->getShape().take_front(batch);
  }
  if (!fits || node.getShape(2) != ArrayRef(expected))
    return node.emitError() << "cannot add " << node.getType(2) << " to "
                            << *type << " at " << node.getType(1);
  SmallVector<int64_t> table = {
      ShapedType::getNumElements(type->getShape().take_front(counted))};
  llvm::append_range(table, type->getShape().drop_front(counted));
  Value numbers =
      numberRows(node, 1, type->getShape().take_front(counted), batch);
  Value rows = GatherGradOp::create(b, type->clone(table), node.getInput(2),
                                    numbers, PrecisionAttr());
  return node.setResult(buildReshape(b, rows, type->getShape()));
}

/// Imports Concat; the second output is the lengths of its parts, which
/// SplitTraining reads.
LogicalResult mlir::binade::importer::importConcatTraining(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  if (failed(importConcat(node)))
    return failure();
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", 0), node.getRank(0));
  SmallVector<int64_t> lengths;
  for (unsigned index = 0; index < node.getNumInputs(); ++index)
    lengths.push_back(node.getShape(index)[*axis]);
  auto type = RankedTensorType::get(lengths.size(), b.getI64Type());
  node.setOutput(1, ConstantOp::create(
                        b, DenseElementsAttr::get(type, ArrayRef(lengths))));
  return success();
}

/// Builds the sum of a buffer and a value or, if the third input is true, the
/// value. The first output is a completion flag.
LogicalResult mlir::binade::importer::importInPlaceAccumulator(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  if (failed(requirePair(node)))
    return failure();
  Value value = node.getInput(1);
  Value sum = AddOp::create(b, node.getInput(0), value);
  if (node.hasInput(2)) {
    if (!node.getElement(2).isInteger(1) ||
        node.getType(2).getNumElements() != 1)
      return node.emitError() << "expected one bool, got " << node.getType(2);
    Value overwrites = buildReshape(b, node.getInput(2), {});
    sum = SelectOp::create(
        b, broadcastTo(b, overwrites, getTensor(sum).getShape()), value, sum);
  }
  node.setOutput(1, sum);
  return node.setResult(
      buildSplat(b, RankedTensorType::get({1}, b.getI1Type()), 1.0));
}
