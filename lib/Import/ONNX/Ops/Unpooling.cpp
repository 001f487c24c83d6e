//===- Unpooling.cpp - Import of MaxUnpool --------------------------------===//

#include "../OpTable.h"
#include "Indexing.h"
#include "Window.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Places each element at its MaxPool index in a zero image that the windows
/// cover. `output_shape` may pad this image with zeros at the end.
LogicalResult mlir::binade::importer::importMaxUnpool(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  int64_t rank = type.getRank();
  if (failed(requireFloats(node)) || failed(requireIndices(node, 1)))
    return failure();
  if (rank < 3 || node.getShape(1) != type.getShape())
    return node.emitUnsupported()
           << "expected [N, C, spatial...] and as many "
           << "indices, got " << type << " and " << node.getType(1);
  FailureOr<Window> window = readGeometry(node, {}, rank - 2);
  if (failed(window))
    return failure();
  bool isGiven = node.hasInput(2), overlaps = false;
  SmallVector<int64_t> covered(type.getShape());
  for (int64_t axis = 0; axis < rank - 2; ++axis) {
    int64_t &size = covered[axis + 2];
    std::optional<int64_t> end = llvm::checkedMulAdd(
        size - 1, window->strides[axis], window->kernel[axis]);
    size = end.value_or(0) - window->low[axis] - window->high[axis];
    overlaps |= window->kernel[axis] > window->strides[axis];
  }
  SmallVector<int64_t> shape = covered;
  if (isGiven) {
    FailureOr<SmallVector<int64_t>> given = node.getIntegers(2, "output_shape");
    if (failed(given))
      return failure();
    shape = *given;
  }
  bool fits = shape.size() == covered.size();
  for (int64_t axis = 0; fits && axis < rank; ++axis)
    fits = covered[axis] >= (axis < 2 ? 0 : 1) && shape[axis] >= covered[axis];
  if (!fits)
    return node.emitUnsupported()
           << "cannot put " << type << " into images of [" << shape
           << "]: its windows cover [" << covered << "]";
  FailureOr<RankedTensorType> whole =
      getTensorType(node.getErrorLoc(), shape, type.getElementType());
  if (failed(whole))
    return failure();
  if (hasNoElements(*whole))
    return node.setResult(buildSplat(b, *whole, 0.0));
  int64_t planes = covered[0] * covered[1];
  int64_t all = ShapedType::getNumElements(covered), plane = all / planes;
  int64_t count = type.getNumElements();
  Value x = node.getInput(0), index = getPlaces(node, 1, all), y;
  if (!overlaps) {
    // Windows do not overlap, so no two elements have the same index.
    y = GatherGradOp::create(b, type.clone({all}), buildReshape(b, x, count),
                             buildReshape(b, index, count), PrecisionAttr());
  } else {
    SmallVector<int64_t> lines = {planes, count / planes};
    index = buildReshape(b, index, lines);
    auto indexType = cast<RankedTensorType>(index.getType());
    index =
        SubOp::create(b, index, times(b, buildPlaces(b, indexType, 0), plane));
    // Indices must not leave their plane.
    index = CheckIndexOp::create(b, indexType, index, 0, plane, IntegerAttr());
    FailureOr<Value> replaced =
        replaceAlong(node, buildSplat(b, type.clone({planes, plane}), 0.0),
                     index, buildReshape(b, x, lines), 1);
    if (failed(replaced))
      return failure();
    y = *replaced;
  }
  y = buildReshape(b, y, covered);
  if (shape != covered) {
    SmallVector<int64_t> offsets(rank, 0), strides(rank, 1);
    y = PadOp::create(b, *whole, y, offsets, strides);
  }
  return node.setResult(y);
}
