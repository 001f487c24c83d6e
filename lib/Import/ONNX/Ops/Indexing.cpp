//===- Indexing.cpp - Import of gathers of elements -----------------------===//
//
// Elements are gathered as rows of the flattened tensor. Their positions are
// computed by integer arithmetic on the indices.
//
//===----------------------------------------------------------------------===//

#include "Indexing.h"
#include "../OpTable.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

Value mlir::binade::importer::buildPlaces(ImplicitLocOpBuilder &b,
                                          RankedTensorType type, int64_t axis) {
  return IotaOp::create(b, type.clone(b.getI64Type()),
                        b.getI64IntegerAttr(axis));
}

/// Converts `indices` that may be negative to ones from the front of an axis of
/// `length`.
static Value countFromFront(ImplicitLocOpBuilder &b, Value indices,
                            int64_t length) {
  Value zero = buildSplat(b, indices.getType(), 0.0);
  Value isNegative = CompareOp::create(b, indices, zero, Comparison::Less);
  Value fromEnd = AddOp::create(
      b, indices,
      buildSplat(b, indices.getType(), static_cast<double>(length)));
  return SelectOp::create(b, isNegative, fromEnd, indices);
}

/// Builds a check: integers outside [-length, length) are an error at run time.
static Value checkIndices(ImplicitLocOpBuilder &b, Value indices,
                          int64_t length) {
  return CheckIndexOp::create(b, indices.getType(), indices, -length, length,
                              IntegerAttr());
}

LogicalResult mlir::binade::importer::requireIndices(Node &node,
                                                     unsigned index) {
  Type element = node.getElement(index);
  if (element.isInteger(32) || element.isInteger(64))
    return success();
  return node.emitError() << "expected indices of int32 or int64, got "
                          << node.getType(index);
}

Value mlir::binade::importer::times(ImplicitLocOpBuilder &b, Value x,
                                    int64_t factor) {
  return MulOp::create(b, x,
                       buildSplat(b, x.getType(), static_cast<double>(factor)));
}

Value mlir::binade::importer::getPlaces(Node &node, unsigned index,
                                        int64_t length) {
  Value places = buildCast(node.b, node.getInput(index), node.b.getI64Type());
  return countFromFront(node.b, checkIndices(node.b, places, length), length);
}

//===----------------------------------------------------------------------===//
// Elements along an axis
//===----------------------------------------------------------------------===//

Value mlir::binade::importer::numberElements(ImplicitLocOpBuilder &b,
                                             ArrayRef<int64_t> shape,
                                             Value places, int64_t axis) {
  auto type = cast<RankedTensorType>(places.getType());
  SmallVector<int64_t> strides = computeStrides(shape);
  Value number = times(b, places, strides[axis]);
  for (int64_t other = 0; other < type.getRank(); ++other)
    if (other != axis && type.getDimSize(other) > 1)
      number = AddOp::create(
          b, number, times(b, buildPlaces(b, type, other), strides[other]));
  return number;
}

Value mlir::binade::importer::gatherAlong(ImplicitLocOpBuilder &b, Value x,
                                          Value places, int64_t axis) {
  auto data = cast<RankedTensorType>(x.getType());
  return GatherOp::create(b, buildReshape(b, x, data.getNumElements()),
                          numberElements(b, data.getShape(), places, axis),
                          PrecisionAttr());
}

Value mlir::binade::importer::takeAlong(ImplicitLocOpBuilder &b, Value x,
                                        ArrayRef<int64_t> places,
                                        int64_t axis) {
  auto type = cast<RankedTensorType>(x.getType());
  auto count = static_cast<int64_t>(places.size());
  int64_t step = count > 1 ? places[1] - places[0] : 1;
  bool isSlice = step > 0;
  for (int64_t i = 1; isSlice && i < count; ++i)
    isSlice = places[i] - places[i - 1] == step;
  if (isSlice) {
    SmallVector<int64_t> shape(type.getShape()), offsets(type.getRank(), 0),
        strides(type.getRank(), 1);
    if (count == shape[axis] && step == 1)
      return x;
    shape[axis] = count;
    offsets[axis] = count == 0 ? 0 : places[0];
    strides[axis] = step;
    return SliceOp::create(b, type.clone(shape), x, offsets, strides);
  }
  Value indices = ConstantOp::create(
      b, DenseElementsAttr::get(RankedTensorType::get(count, b.getI64Type()),
                                places));
  SmallVector<int64_t> first = {axis}, back;
  for (int64_t other = 0; other < type.getRank(); ++other) {
    if (other != axis)
      first.push_back(other);
    back.push_back(other == axis ? 0 : other < axis ? other + 1 : other);
  }
  Value rows = GatherOp::create(b, buildTranspose(b, x, first), indices,
                                PrecisionAttr());
  return buildTranspose(b, rows, back);
}

LogicalResult mlir::binade::importer::importGatherElements(Node &node) {
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
  return node.setResult(gatherAlong(node.b, node.getInput(0),
                                    getPlaces(node, 1, data.getDimSize(*axis)),
                                    *axis));
}

//===----------------------------------------------------------------------===//
// Rows by tuples of indices
//===----------------------------------------------------------------------===//

Value mlir::binade::importer::numberRows(Node &node, unsigned index,
                                         ArrayRef<int64_t> counted,
                                         int64_t batch) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType indices = node.getType(index);
  int64_t depth = counted.size() - batch;
  SmallVector<int64_t> strides = computeStrides(counted);
  SmallVector<int64_t> tuples(indices.getShape().drop_back());
  auto placeType = RankedTensorType::get(tuples, b.getI64Type());
  Value all = buildCast(b, node.getInput(index), b.getI64Type()), place;
  auto add = [&](Value x) {
    place = place ? Value(AddOp::create(b, place, x)) : x;
  };
  for (int64_t axis = 0; axis < depth; ++axis) {
    int64_t length = counted[batch + axis];
    Value one = buildReshape(
        b, buildSlice(b, all, indices.getRank() - 1, axis, 1), tuples);
    one = countFromFront(b, checkIndices(b, one, length), length);
    add(times(b, one, strides[batch + axis]));
  }
  for (int64_t axis = 0; axis < batch; ++axis)
    add(times(b, buildPlaces(b, placeType, axis), strides[axis]));
  return place;
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
  // One tuple of indices selects one row.
  ArrayRef<int64_t> counted = data.getShape().take_front(batch + depth);
  SmallVector<int64_t> table = {ShapedType::getNumElements(counted)};
  llvm::append_range(table, data.getShape().drop_front(batch + depth));
  return node.setResult(
      GatherOp::create(b, buildReshape(b, node.getInput(0), table),
                       numberRows(node, 1, counted, batch), PrecisionAttr()));
}

LogicalResult mlir::binade::importer::importOneHot(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  FailureOr<SmallVector<int64_t>> depth = node.getWholeNumbers(1, "depth");
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", -1), node.getRank(0) + 1);
  if (failed(depth) || failed(axis))
    return failure();
  if (depth->size() != 1 || depth->front() < 1 || node.getRank(2) != 1 ||
      node.getShape(2)[0] != 2)
    return node.emitUnsupported()
           << "expected one positive depth and two values, "
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

/// Writes updates into a cache, starting at a position per sample: each
/// position of the cache computes which element of the update it receives, if
/// any.
LogicalResult mlir::binade::importer::importTensorScatter(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  StringRef mode = node.getString("mode", "linear");
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", -2), type.getRank());
  if (failed(axis))
    return failure();
  if (mode != "linear" && mode != "circular")
    return node.emitError() << "does not know mode " << quote(mode);
  SmallVector<int64_t> shape(node.getShape(1));
  int64_t length = type.getDimSize(*axis);
  if (*axis == 0 || node.getRank(1) != type.getRank() ||
      shape[*axis] > length || node.getElement(1) != type.getElementType())
    return node.emitError() << "cannot write " << node.getType(1) << " into "
                            << type << " along axis " << *axis;
  int64_t count = std::exchange(shape[*axis], length);
  if (ArrayRef(shape) != type.getShape())
    return node.emitError() << "cannot write " << node.getType(1) << " into "
                            << type << " along axis " << *axis;
  Value place = buildPlaces(b, type, *axis);
  auto number = [&](int64_t value) {
    return buildSplat(b, place.getType(), static_cast<double>(value));
  };
  auto is = [&](Value x, Comparison comparison, int64_t bound) -> Value {
    return CompareOp::create(b, x, number(bound), comparison);
  };
  if (node.hasInput(2)) {
    if (failed(requireIndices(node, 2)))
      return failure();
    if (node.getRank(2) != 1 || node.getShape(2)[0] != type.getDimSize(0))
      return node.emitError()
             << "expected a place for each of " << type.getDimSize(0)
             << " samples, got " << node.getType(2);
    Value first = buildCast(b, node.getInput(2), b.getI64Type());
    place =
        SubOp::create(b, place, buildBroadcast(b, first, 0, type.getShape()));
  }
  if (mode == "circular") {
    Value turns = DivOp::create(b, place, number(length));
    place = SubOp::create(b, place, MulOp::create(b, turns, number(length)));
    place = SelectOp::create(b, is(place, Comparison::Less, 0),
                             AddOp::create(b, place, number(length)), place);
  }
  Value isWritten = AndOp::create(b, is(place, Comparison::GreaterEqual, 0),
                                  is(place, Comparison::Less, count));
  if (count == 0)
    return node.setResult(node.getInput(0));
  place = SelectOp::create(b, isWritten, place, number(0));
  Value written = gatherAlong(b, node.getInput(1), place, *axis);
  return node.setResult(
      SelectOp::create(b, isWritten, written, node.getInput(0)));
}
