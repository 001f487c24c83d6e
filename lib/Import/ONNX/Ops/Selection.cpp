//===- Selection.cpp - Import of ArgMax, TopK and selections --------------===//
//
// Positions are computed in f32, which represents integers up to 2^24. TopK
// with a small k selects elements one by one. Otherwise it compares all pairs
// along the axis: the rank of an element is the number of elements that precede
// it.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Combine.h"
#include "Indexing.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

static LogicalResult requireCountable(Node &node, int64_t axis) {
  int64_t length = node.getShape(0)[axis];
  if (length >= 1 && length < (int64_t(1) << 24))
    return success();
  return node.emitUnsupported() << "expected 1 to 2^24 elements along axis "
                                << axis << ", got " << node.getType(0);
}

//===----------------------------------------------------------------------===//
// One extreme
//===----------------------------------------------------------------------===//

/// Reduces `axis` to the largest or smallest element; NaN if any element is
/// NaN.
static Value reduceExtreme(ImplicitLocOpBuilder &b, Value x, int64_t axis,
                           bool isMax) {
  if (!isa<FloatType>(getElementTypeOrSelf(x.getType())))
    return combineAlong(b, isMax ? Combination::Max : Combination::Min, x,
                        axis);
  ArrayRef<int64_t> axes = axis;
  if (isMax)
    return ReduceMaxOp::create(b, x, axes);
  return NegOp::create(b, ReduceMaxOp::create(b, NegOp::create(b, x), axes));
}

/// Returns the position along `axis` of the largest or smallest element, or of
/// a NaN, as f32 and without the axis. Of several, it is the first or last one.
static Value findExtreme(ImplicitLocOpBuilder &b, Value x, int64_t axis,
                         bool isMax, bool isLast) {
  auto type = cast<RankedTensorType>(x.getType());
  SmallVector<int64_t> kept;
  for (int64_t other = 0; other < type.getRank(); ++other)
    if (other != axis)
      kept.push_back(other);
  Value extreme = buildBroadcast(b, reduceExtreme(b, x, axis, isMax), kept,
                                 type.getShape());
  // If an element is NaN, so is the extreme, and no element equals it.
  Value isNumber = CompareOp::create(b, x, x, Comparison::Equal);
  Value isExtreme =
      OrOp::create(b, CompareOp::create(b, x, extreme, Comparison::Equal),
                   NotOp::create(b, isNumber));
  auto places = type.clone(b.getF32Type());
  auto length = static_cast<double>(type.getDimSize(axis));
  Value place = buildCast(
      b,
      IotaOp::create(b, type.clone(b.getI64Type()), b.getI64IntegerAttr(axis)),
      b.getF32Type());
  if (!isLast)
    place = SubOp::create(b, buildSplat(b, places, length - 1.0), place);
  Value found =
      SelectOp::create(b, isExtreme, place, buildSplat(b, places, 0.0));
  found = ReduceMaxOp::create(b, found, ArrayRef<int64_t>{axis});
  if (isLast)
    return found;
  return SubOp::create(b, buildSplat(b, found.getType(), length - 1.0), found);
}

static LogicalResult importExtreme(Node &node, bool isMax) {
  ImplicitLocOpBuilder &b = node.b;
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", 0), node.getRank(0));
  bool keeps = node.getInt("keepdims", 1);
  bool isLast = node.getInt("select_last_index", 0);
  if (failed(axis) || failed(requireCountable(node, *axis)))
    return failure();
  Value place = findExtreme(b, node.getInput(0), *axis, isMax, isLast);
  SmallVector<int64_t> shape(node.getShape(0));
  shape[*axis] = 1;
  if (!keeps)
    shape.erase(shape.begin() + *axis);
  return node.setResult(
      buildReshape(b, buildCast(b, place, b.getI64Type()), shape));
}

LogicalResult mlir::binade::importer::importArgMax(Node &node) {
  return importExtreme(node, true);
}

LogicalResult mlir::binade::importer::importArgMin(Node &node) {
  return importExtreme(node, false);
}

/// Builds 1 at the first of the largest elements, 0 otherwise.
LogicalResult mlir::binade::importer::importHardmax(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", -1), node.getRank(0));
  if (failed(axis) || failed(requireFloats(node)))
    return failure();
  RankedTensorType type = node.getType(0);
  if (hasNoElements(type))
    return node.setResult(node.getInput(0));
  if (failed(requireCountable(node, *axis)))
    return failure();
  SmallVector<int64_t> kept;
  for (int64_t other = 0; other < type.getRank(); ++other)
    if (other != *axis)
      kept.push_back(other);
  Value place = buildCast(
      b, findExtreme(b, node.getInput(0), *axis, true, false), b.getI64Type());
  Value isLargest = CompareOp::create(
      b, buildPlaces(b, type, *axis),
      buildBroadcast(b, place, kept, type.getShape()), Comparison::Equal);
  return node.setResult(SelectOp::create(b, isLargest, buildSplat(b, type, 1.0),
                                         buildSplat(b, type, 0.0)));
}

/// Selects the entries of an axis, or of the flattened tensor, by a constant
/// condition.
LogicalResult mlir::binade::importer::importCompress(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  FailureOr<SmallVector<int64_t>> kept = node.getIntegers(1, "condition");
  if (failed(kept))
    return failure();
  Value x = node.getInput(0);
  int64_t axis = 0;
  if (node.hasAttribute("axis")) {
    FailureOr<int64_t> given =
        node.normalizeAxis(node.getInt("axis", 0), node.getRank(0));
    if (failed(given))
      return failure();
    axis = *given;
  } else {
    x = buildReshape(b, x, node.getType(0).getNumElements());
  }
  int64_t length = cast<RankedTensorType>(x.getType()).getDimSize(axis);
  SmallVector<int64_t> places;
  for (auto [place, isKept] : llvm::enumerate(*kept))
    if (isKept)
      places.push_back(place);
  if (!places.empty() && places.back() >= length)
    return node.emitUnsupported()
           << "keeps entry " << places.back() << " of " << length;
  return node.setResult(takeAlong(b, x, places, axis));
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// Builds whether x strictly precedes y. NaN counts as the largest value.
static Value buildIsBefore(ImplicitLocOpBuilder &b, Value x, Value y,
                           bool isDescending) {
  auto isNaN = [&](Value z) -> Value {
    return NotOp::create(b, CompareOp::create(b, z, z, Comparison::Equal));
  };
  auto isNumber = [&](Value z) -> Value {
    return CompareOp::create(b, z, z, Comparison::Equal);
  };
  Value larger = isDescending ? x : y, smaller = isDescending ? y : x;
  Value isLarger = CompareOp::create(b, larger, smaller, Comparison::Greater);
  Value isBeyond = AndOp::create(b, isNaN(larger), isNumber(smaller));
  return OrOp::create(b, isLarger, isBeyond);
}

/// Returns the positions of the first `count` elements of `x` along the last
/// axis in sorted order, by comparing all pairs.
static Value findFirst(ImplicitLocOpBuilder &b, Value x, int64_t count,
                       bool isDescending) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t rank = type.getRank(), length = type.getShape().back();
  // Axis `rank - 1` is the element, axis `rank` the element it is compared
  // with.
  SmallVector<int64_t> shape(type.getShape());
  shape.push_back(length);
  auto leading = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<int64_t> trailing = leading;
  trailing.back() = rank;
  Value own = buildBroadcast(b, x, leading, shape);
  Value other = buildBroadcast(b, x, trailing, shape);
  auto pairs = type.clone(shape);
  Value isEarlier =
      CompareOp::create(b, buildPlaces(b, pairs, rank),
                        buildPlaces(b, pairs, rank - 1), Comparison::Less);
  Value isAfter = buildIsBefore(b, own, other, isDescending);
  Value isBefore = buildIsBefore(b, other, own, isDescending);
  Value precedes = OrOp::create(
      b, isBefore, AndOp::create(b, isEarlier, NotOp::create(b, isAfter)));
  Value ranks = ReduceSumOp::create(b, buildCast(b, precedes, b.getF32Type()),
                                    ArrayRef<int64_t>{rank});
  // Exactly one element has rank i, so the sum is its position.
  shape[rank - 1] = count;
  auto picks = type.clone(shape).clone(b.getF32Type());
  Value wanted = buildCast(b, buildPlaces(b, picks, rank - 1), b.getF32Type());
  Value place = buildCast(b, buildPlaces(b, picks, rank), b.getF32Type());
  Value isWanted = CompareOp::create(
      b, buildBroadcast(b, ranks, trailing, shape), wanted, Comparison::Equal);
  Value picked =
      SelectOp::create(b, isWanted, place, buildSplat(b, picks, 0.0));
  Value places = ReduceSumOp::create(b, picked, ArrayRef<int64_t>{rank});
  return buildCast(b, places, b.getI64Type());
}

/// Returns the same positions for floats by selecting one element at a time:
/// `count` reductions over the remaining elements.
static Value pickFirst(ImplicitLocOpBuilder &b, Value x, int64_t count,
                       bool isDescending) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t axis = type.getRank() - 1, length = type.getDimSize(axis);
  auto leading = llvm::to_vector(llvm::seq<int64_t>(0, axis));
  auto counts = type.clone(b.getF32Type());
  auto spread = [&](Value row) {
    return buildBroadcast(b, row, leading, type.getShape());
  };
  auto findMost = [&](Value elements) -> Value {
    return ReduceMaxOp::create(b, elements, ArrayRef<int64_t>{axis});
  };
  auto holdsSomewhere = [&](Value condition) -> Value {
    Value most = spread(findMost(buildCast(b, condition, b.getF32Type())));
    return CompareOp::create(b, most, buildSplat(b, counts, 0.0),
                             Comparison::Greater);
  };
  Value place = buildCast(b, buildPlaces(b, type, axis), b.getF32Type());
  // The first position gets the largest value.
  Value reversedPlace = SubOp::create(
      b, buildSplat(b, counts, static_cast<double>(length - 1)), place);
  Value isNumber = CompareOp::create(b, x, x, Comparison::Equal);
  Value isNaN = NotOp::create(b, isNumber);
  Value key = isDescending ? x : Value(NegOp::create(b, x));
  Value none = buildSplat(b, type, -INFINITY);
  Value isLeft = CompareOp::create(b, place, place, Comparison::Equal);
  SmallVector<int64_t> column(type.getShape());
  column.back() = 1;
  SmallVector<Value> picked;
  for (int64_t rank = 0; rank < count; ++rank) {
    Value isLeftNumber = AndOp::create(b, isLeft, isNumber);
    Value isLeftNaN = AndOp::create(b, isLeft, isNaN);
    Value isMost = AndOp::create(
        b, isLeftNumber,
        CompareOp::create(
            b, key,
            spread(findMost(SelectOp::create(b, isLeftNumber, key, none))),
            Comparison::Equal));
    // NaN counts as the largest value.
    Value isNext =
        isDescending
            ? SelectOp::create(b, holdsSomewhere(isLeftNaN), isLeftNaN, isMost)
            : SelectOp::create(b, holdsSomewhere(isLeftNumber), isMost,
                               isLeftNaN);
    Value most = findMost(
        SelectOp::create(b, isNext, reversedPlace, buildSplat(b, counts, 0.0)));
    Value isSame =
        CompareOp::create(b, reversedPlace, spread(most), Comparison::Equal);
    isLeft = AndOp::create(b, isLeft, NotOp::create(b, isSame));
    Value first = SubOp::create(
        b, buildSplat(b, most.getType(), static_cast<double>(length - 1)),
        most);
    picked.push_back(buildReshape(b, first, column));
  }
  column.back() = count;
  Value places = ConcatOp::create(b, counts.clone(column), picked,
                                  b.getI64IntegerAttr(axis));
  return buildCast(b, places, b.getI64Type());
}

/// TopK selects one by one if the axis has more than this many elements per
/// selected one.
static constexpr int64_t kPairsOfPick = 32;

LogicalResult mlir::binade::importer::importTopK(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", -1), type.getRank());
  FailureOr<SmallVector<int64_t>> k = node.getIntegers(1, "k");
  bool isDescending = node.getInt("largest", 1);
  (void)node.getInt("sorted", 1); // sorted = 0 allows any order.
  if (failed(axis) || failed(k) || failed(requireCountable(node, *axis)))
    return failure();
  int64_t length = type.getDimSize(*axis);
  if (k->size() != 1 || k->front() < 0 || k->front() > length)
    return node.emitError() << "cannot take [" << *k << "] elements along axis "
                            << *axis << " of " << type;
  SmallVector<int64_t> last = getAxisLast(type.getRank(), *axis);
  SmallVector<int64_t> back = invertPermutationVector(last);
  bool isFew = isa<FloatType>(type.getElementType()) && k->front() > 0 &&
               length / kPairsOfPick > k->front();
  Value x = buildTranspose(b, node.getInput(0), last);
  Value places = isFew ? pickFirst(b, x, k->front(), isDescending)
                       : findFirst(b, x, k->front(), isDescending);
  places = buildTranspose(b, places, back);
  node.setOutput(0, gatherAlong(b, node.getInput(0), places, *axis));
  node.setOutput(1, places);
  return success();
}

/// Reverses the first elements of each sequence, whose number is in input 1.
LogicalResult mlir::binade::importer::importReverseSequence(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  int64_t time = node.getInt("time_axis", 0),
          batch = node.getInt("batch_axis", 1);
  if (type.getRank() < 2 || time < 0 || time > 1 || batch != 1 - time ||
      !node.getElement(1).isInteger(64) ||
      node.getShape(1) != type.getShape().slice(batch, 1))
    return node.emitUnsupported()
           << "expected axes 0 and 1 and a length for each "
           << "sequence, got " << type << " and " << node.getType(1);
  // Positions below the length are mirrored.
  Value place = buildPlaces(b, type, time);
  Value length = buildBroadcast(b, node.getInput(1), {batch}, type.getShape());
  Value isInside = CompareOp::create(b, place, length, Comparison::Less);
  Value last = SubOp::create(b, length, buildSplat(b, length.getType(), 1.0));
  Value source =
      SelectOp::create(b, isInside, SubOp::create(b, last, place), place);
  return node.setResult(gatherAlong(b, node.getInput(0), source, time));
}
