//===- Features.cpp - Import of ops of ai.onnx.ml -------------------------===//

#include "../OpTable.h"
#include "Arithmetic.h"
#include "Indexing.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Gathers elements of the last axis by index; a vector is treated as a matrix
/// of one row.
LogicalResult mlir::binade::importer::importArrayFeatureExtractor(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  if (failed(requireIndices(node, 1)))
    return failure();
  SmallVector<int64_t> shape(node.getShape(0));
  int64_t count = node.getType(1).getNumElements();
  if (shape.empty() || count == 0)
    return node.emitError()
           << "cannot take " << node.getType(1) << " of " << node.getType(0);
  if (shape.size() == 1)
    shape.insert(shape.begin(), 1);
  int64_t last = static_cast<int64_t>(shape.size()) - 1;
  int64_t length = std::exchange(shape[last], count);
  Value places = buildReshape(b, getPlaces(node, 1, length), count);
  int64_t rows = ShapedType::getNumElements(ArrayRef(shape).drop_back());
  Value table = buildReshape(b, node.getInput(0), {rows, length});
  Value y = GatherOp::create(b, buildTranspose(b, table, {1, 0}), places,
                             PrecisionAttr());
  return node.setResult(buildReshape(b, buildTranspose(b, y, {1, 0}), shape));
}

/// Builds 1 for elements above the threshold, 0 otherwise.
LogicalResult mlir::binade::importer::importBinarizer(Node &node) {
  double threshold = node.getFloat("threshold", 0.0f);
  Value x = node.getInput(0);
  Type element = node.getElement(0);
  Arithmetic a(node.b, node.hasFloats(0)
                           ? x
                           : buildCast(node.b, x, node.b.getF64Type()));
  Value isAbove = a.compare(a.x, Comparison::Greater, threshold);
  return node.setResult(buildCast(node.b, isAbove, element));
}
