//===- Contraction.cpp - Import of MatMul and Gemm ------------------------===//

#include "../OpTable.h"
#include "mlir/Dialect/Traits.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

static Value scale(ImplicitLocOpBuilder &b, Value value, double factor) {
  if (factor == 1.0)
    return value;
  return MulOp::create(b, value, buildSplat(b, value.getType(), factor));
}

/// Builds alpha op(A) op(B) + beta C. C becomes the bias of the matmul if it
/// has one element per column and alpha is 1.
LogicalResult mlir::binade::importer::importGemm(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  double alpha = node.getFloat("alpha", 1.0f),
         beta = node.getFloat("beta", 1.0f);
  bool transposeA = node.getInt("transA", 0),
       transposeB = node.getInt("transB", 0);
  if (node.getRank(0) != 2 || node.getRank(1) != 2 ||
      node.getShape(0)[transposeA ? 0 : 1] !=
          node.getShape(1)[transposeB ? 1 : 0] ||
      node.getElement(0) != node.getElement(1) || !node.hasFloats(0))
    return node.emitError()
           << "cannot multiply " << node.getType(0)
           << (transposeA ? " (transposed)" : "") << " and " << node.getType(1)
           << (transposeB ? " (transposed)" : "");
  SmallVector<int64_t> shape = {node.getShape(0)[transposeA ? 1 : 0],
                                node.getShape(1)[transposeB ? 0 : 1]};
  Value bias, addend;
  if (node.hasInput(2)) {
    Value c = node.getInput(2);
    RankedTensorType type = node.getType(2);
    if (type.getElementType() != node.getElement(0) || type.getRank() > 2 ||
        (type.getRank() == 2 && type.getDimSize(0) != 1 &&
         type.getDimSize(0) != shape[0]) ||
        (type.getRank() > 0 && type.getShape().back() != 1 &&
         type.getShape().back() != shape[1]))
      return node.emitError()
             << "cannot add " << type << " to a matmul result of shape ["
             << shape << "]";
    c = scale(b, c, beta);
    bool isPerColumn = type.getRank() > 0 &&
                       type.getNumElements() == shape[1] &&
                       type.getShape().back() == shape[1];
    if (isPerColumn && alpha == 1.0)
      bias = buildReshape(b, c, shape[1]);
    else
      addend = broadcastTo(b, c, shape);
  }
  Value product =
      scale(b,
            MatmulOp::create(b, node.getInput(0), node.getInput(1), bias,
                             transposeA, transposeB, PrecisionAttr()),
            alpha);
  return node.setResult(addend ? AddOp::create(b, product, addend) : product);
}

namespace {
/// An operand of a matmul: a value, and whether its last two axes are swapped.
struct Side {
  Value value;
  bool isTransposed = false;

  ArrayRef<int64_t> getShape() const {
    return cast<RankedTensorType>(value.getType()).getShape();
  }
};
} // namespace

/// Returns the operand of a transpose of the last two axes, with a flag instead
/// of the transpose.
static Side getSide(Value value) {
  Value swapped = getSwapped(value);
  return swapped ? Side{swapped, true} : Side{value};
}

/// Broadcasts the leading axes of `side` to `batch`.
static Value broadcastBatch(ImplicitLocOpBuilder &b, Side side,
                            ArrayRef<int64_t> batch) {
  SmallVector<int64_t> shape(batch);
  llvm::append_range(shape, side.getShape().take_back(2));
  return broadcastTo(b, side.value, shape);
}

PrecisionAttr mlir::binade::importer::pinTo(FloatType format) {
  return PrecisionAttr::get(format.getContext(), format, format, format,
                            ArrayAttr(), TransformAttr(), AccumulationAttr(),
                            ClampAttr(), StringAttr());
}

/// If the right side is one matrix, the batch axes of the left side are
/// flattened into rows of one matmul.
FailureOr<Value> mlir::binade::importer::buildProduct(Node &node, Value left,
                                                      Value right,
                                                      PrecisionAttr decision) {
  ImplicitLocOpBuilder &b = node.b;
  auto lhsType = cast<RankedTensorType>(left.getType()),
       rhsType = cast<RankedTensorType>(right.getType());
  auto reject = [&]() {
    return node.emitError()
           << "cannot multiply " << lhsType << " and " << rhsType;
  };
  if (!isa<FloatType>(lhsType.getElementType()) ||
      lhsType.getElementType() != rhsType.getElementType())
    return node.emitUnsupported()
           << "expected two sides of one floating-point type, "
           << "got " << lhsType << " and " << rhsType;
  if (lhsType.getRank() == 0 || rhsType.getRank() == 0)
    return reject();
  // A vector is a row on the left and a column on the right.
  ArrayRef<int64_t> lhsShape = lhsType.getShape(),
                    rhsShape = rhsType.getShape();
  bool isRow = lhsShape.size() == 1, isColumn = rhsShape.size() == 1;
  Side lhs =
      isRow ? Side{buildReshape(b, left, {1, lhsShape[0]})} : getSide(left);
  Side rhs = isColumn ? Side{buildReshape(b, right, {rhsShape[0], 1})}
                      : getSide(right);
  int64_t depth = lhsShape.back();
  if (depth != rhsShape[isColumn ? 0 : rhsShape.size() - 2])
    return reject();
  SmallVector<int64_t> result;
  auto multiply = [&](Value x, Value y) -> Value {
    return MatmulOp::create(b, x, y, Value(), lhs.isTransposed,
                            rhs.isTransposed, decision);
  };
  auto finish = [&](Value product, ArrayRef<int64_t> batch) {
    result.assign(batch.begin(), batch.end());
    if (!isRow)
      result.push_back(lhsShape[lhsShape.size() - 2]);
    if (!isColumn)
      result.push_back(rhsShape.back());
    return buildReshape(b, product, result);
  };
  ArrayRef<int64_t> lhsBatch = lhs.getShape().drop_back(2),
                    rhsBatch = rhs.getShape().drop_back(2);
  if (rhsBatch.empty() && !lhsBatch.empty()) {
    lhs = {left}; // Rows have to be contiguous.
    int64_t rows = ShapedType::getNumElements(lhsShape.drop_back());
    Value flat = buildReshape(b, lhs.value, {rows, depth});
    return finish(multiply(flat, rhs.value), lhsBatch);
  }
  SmallVector<int64_t> batch;
  if (!OpTrait::util::getBroadcastedShape(lhsBatch, rhsBatch, batch))
    return reject();
  return finish(
      multiply(broadcastBatch(b, lhs, batch), broadcastBatch(b, rhs, batch)),
      batch);
}

LogicalResult mlir::binade::importer::importMatMul(Node &node) {
  FailureOr<Value> product =
      buildProduct(node, node.getInput(0), node.getInput(1));
  return failed(product) ? failure() : node.setResult(*product);
}
