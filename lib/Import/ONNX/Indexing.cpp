//===- Indexing.cpp - Elements by index -----------------------------------===//
//
// An element of a tensor is a row of its elements in one line; where it lies
// there is integer arithmetic on the indices.
//
//===----------------------------------------------------------------------===//

#include "OpTable.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Integers of `type`, each the place along `axis` where it stands.
static Value buildPlaces(ImplicitLocOpBuilder &b, RankedTensorType type,
                         int64_t axis) {
  return IotaOp::create(b, type, b.getI64IntegerAttr(axis));
}

/// `indices` counted from the front of an axis of `length`.
static Value countFromFront(ImplicitLocOpBuilder &b, Value indices,
                            int64_t length) {
  Value zero = buildSplat(b, indices.getType(), 0.0);
  Value isNegative = CompareOp::create(b, indices, zero, Comparison::Less);
  Value fromEnd = AddOp::create(
      b, indices,
      buildSplat(b, indices.getType(), static_cast<double>(length)));
  return SelectOp::create(b, isNegative, fromEnd, indices);
}

/// Integers outside of [-length, length) are an error at run time.
static Value checkIndices(ImplicitLocOpBuilder &b, Value indices,
                          int64_t length) {
  return CheckIndexOp::create(b, indices.getType(), indices, -length, length,
                              IntegerAttr());
}

static LogicalResult requireIndices(Node &node, unsigned index) {
  Type element = node.getElement(index);
  if (element.isInteger(32) || element.isInteger(64))
    return success();
  return node.emitError() << "expected indices of int32 or int64, got "
                          << node.getType(index);
}

static Value times(ImplicitLocOpBuilder &b, Value x, int64_t factor) {
  return MulOp::create(b, x,
                       buildSplat(b, x.getType(), static_cast<double>(factor)));
}

LogicalResult mlir::binade::importer::importGatherElements(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType data = node.getType(0), places = node.getType(1);
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", 0), data.getRank());
  if (failed(axis) || failed(requireIndices(node, 1)))
    return failure();
  bool fits = places.getRank() == data.getRank();
  for (int64_t other = 0; fits && other < data.getRank(); ++other)
    fits = other == *axis || places.getDimSize(other) <= data.getDimSize(other);
  if (!fits)
    return node.emitError() << "cannot take elements of " << data << " at "
                            << places << " along axis " << *axis;
  int64_t length = data.getDimSize(*axis);
  Value index = buildCast(b, node.getInput(1), b.getI64Type());
  places = places.clone(b.getI64Type());
  index = countFromFront(b, checkIndices(b, index, length), length);
  SmallVector<int64_t> strides = computeStrides(data.getShape());
  Value place = times(b, index, strides[*axis]);
  for (int64_t other = 0; other < data.getRank(); ++other)
    if (other != *axis && places.getDimSize(other) > 1)
      place = AddOp::create(
          b, place, times(b, buildPlaces(b, places, other), strides[other]));
  Value line = buildReshape(b, node.getInput(0), data.getNumElements());
  return node.setResult(GatherOp::create(b, line, place, PrecisionAttr()));
}

LogicalResult mlir::binade::importer::importGatherND(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType data = node.getType(0), indices = node.getType(1);
  int64_t batch = node.getInt("batch_dims", 0);
  int64_t depth = indices.getRank() > 0 ? indices.getShape().back() : 0;
  if (failed(requireIndices(node, 1)))
    return failure();
  if (indices.getRank() == 0 || batch < 0 || batch >= indices.getRank() ||
      batch + depth > data.getRank() || depth < 1 ||
      data.getShape().take_front(batch) != indices.getShape().take_front(batch))
    return node.emitError() << "cannot take slices of " << data << " at "
                            << indices << " with " << batch << " batch axes";
  // A row is what one tuple of indices names.
  ArrayRef<int64_t> row = data.getShape().drop_front(batch + depth);
  ArrayRef<int64_t> counted = data.getShape().take_front(batch + depth);
  SmallVector<int64_t> strides = computeStrides(counted);
  SmallVector<int64_t> tuples(indices.getShape().drop_back());
  auto placeType = RankedTensorType::get(tuples, b.getI64Type());
  Value all = buildCast(b, node.getInput(1), b.getI64Type()), place;
  auto add = [&](Value x) {
    place = place ? Value(AddOp::create(b, place, x)) : x;
  };
  for (int64_t axis = 0; axis < depth; ++axis) {
    int64_t length = counted[batch + axis];
    Value index = buildReshape(
        b, buildSlice(b, all, indices.getRank() - 1, axis, 1), tuples);
    index = countFromFront(b, checkIndices(b, index, length), length);
    add(times(b, index, strides[batch + axis]));
  }
  for (int64_t axis = 0; axis < batch; ++axis)
    add(times(b, buildPlaces(b, placeType, axis), strides[axis]));
  SmallVector<int64_t> table = {ShapedType::getNumElements(counted)};
  llvm::append_range(table, row);
  return node.setResult(GatherOp::create(
      b, buildReshape(b, node.getInput(0), table), place, PrecisionAttr()));
}

LogicalResult mlir::binade::importer::importOneHot(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  FailureOr<SmallVector<int64_t>> depth = node.getIntegers(1, "depth");
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", -1), node.getRank(0) + 1);
  if (failed(depth) || failed(axis))
    return failure();
  if (depth->size() != 1 || depth->front() < 1 || node.getRank(2) != 1 ||
      node.getShape(2)[0] != 2)
    return node.emitError() << "expected one positive depth and two values, "
                            << "got [" << *depth << "] and " << node.getType(2);
  SmallVector<int64_t> shape(node.getShape(0)), axes;
  shape.insert(shape.begin() + *axis, depth->front());
  for (int64_t other = 0; other < static_cast<int64_t>(shape.size()); ++other)
    if (other != *axis)
      axes.push_back(other);
  auto type = RankedTensorType::get(shape, b.getI64Type());
  if (failed(getTensorType(node.getErrorLoc(), shape, node.getElement(2))))
    return failure();
  Value index = buildCast(b, node.getInput(0), b.getI64Type());
  index = countFromFront(b, index, depth->front());
  Value isOn =
      CompareOp::create(b, buildBroadcast(b, index, axes, shape),
                        buildPlaces(b, type, *axis), Comparison::Equal);
  auto value = [&](int64_t which) {
    Value scalar =
        buildReshape(b, buildSlice(b, node.getInput(2), 0, which, 1), {});
    return broadcastTo(b, scalar, shape);
  };
  return node.setResult(SelectOp::create(b, isOn, value(1), value(0)));
}
