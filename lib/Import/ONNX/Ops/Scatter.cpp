//===- Scatter.cpp - Import of scatters -----------------------------------===//
//
// A scatter that adds is built as the gradient of a gather. For one that
// replaces, each element is compared with the places of all updates; the last
// update of a place wins.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Combine.h"
#include "Indexing.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Up to this number, updates are applied one by one.
static constexpr int64_t kMaxSequentialUpdates = 8;
/// The maximum number of pairs of elements and updates to compare.
static constexpr int64_t kMaxPairs = int64_t(1) << 30;

namespace {
/// How an update changes its element.
struct Scatter {
  ImplicitLocOpBuilder &b;
  /// The reduction; nothing if updates replace elements.
  std::optional<Combination> combination;

  Value apply(Value old, Value update) const {
    return combination ? combine(b, *combination, old, update) : update;
  }
  /// Applies `update` to `old` where `isMeant`.
  Value applyWhere(Value isMeant, Value old, Value update) const {
    return SelectOp::create(b, isMeant, apply(old, update), old);
  }
};
} // namespace

static SmallVector<int64_t> getAxes(int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(0, rank));
}

/// Reads attribute `reduction` and the inputs `data` and `updates`. Narrow
/// floats that are reduced are cast to f32, so that the result is rounded once.
static FailureOr<Scatter> readScatter(Node &node, Value &data, Value &updates) {
  StringRef word = node.getString("reduction", "none");
  Scatter scatter{node.b, parseCombination(word)};
  if (word != "none" && !scatter.combination)
    return node.emitError() << "does not know reduction " << quote(word);
  if (node.getElement(2) != node.getElement(0))
    return node.emitError() << "expected updates of elements like "
                            << node.getType(0) << ", got " << node.getType(2);
  data = node.getInput(0), updates = node.getInput(2);
  if (node.hasFloats(0) && scatter.combination) {
    Type wide = node.getElement(0).getIntOrFloatBitWidth() < 32
                    ? Type(node.b.getF32Type())
                    : node.getElement(0);
    data = buildCast(node.b, data, wide);
    updates = buildCast(node.b, updates, wide);
  }
  return scatter;
}

//===----------------------------------------------------------------------===//
// Elements along an axis
//===----------------------------------------------------------------------===//

/// Broadcasts `x` so that a new last axis lists, for every element of a tensor
/// of `type`, the entries of `x` along `axis`.
static Value broadcastAlong(ImplicitLocOpBuilder &b, RankedTensorType type,
                            Value x, int64_t axis) {
  int64_t rank = type.getRank();
  SmallVector<int64_t> shape(type.getShape()), axes = getAxes(rank);
  shape.push_back(getTensor(x).getDimSize(axis));
  axes.erase(axes.begin() + axis);
  axes.push_back(rank);
  return buildBroadcast(b, buildTranspose(b, x, getAxisLast(rank, axis)), axes,
                        shape);
}

/// Builds, for every pair of an element of `type` and one of `places` along
/// `axis`, whether the element is at that place.
static Value compareAll(ImplicitLocOpBuilder &b, RankedTensorType type,
                        Value places, int64_t axis) {
  Value spread = broadcastAlong(b, type, places, axis);
  return CompareOp::create(b, buildPlaces(b, getTensor(spread), axis), spread,
                           Comparison::Equal);
}

/// Fails if there are too many pairs of `targets` elements and `count` updates
/// to compare.
static LogicalResult requirePairs(Node &node, int64_t targets, int64_t count) {
  if (count <= kMaxSequentialUpdates || targets <= kMaxPairs / count)
    return success();
  return node.emitUnsupported()
         << "compares each of " << targets << " elements with " << count
         << " updates, which are too many";
}

/// Returns `whole` with its first elements along every axis replaced by `box`.
static Value placeBox(ImplicitLocOpBuilder &b, Value whole, Value box) {
  for (int64_t axis = 0; axis < getTensor(whole).getRank(); ++axis) {
    int64_t full = getTensor(whole).getDimSize(axis);
    SmallVector<int64_t> shape(getTensor(box).getShape());
    int64_t inside = shape[axis];
    if (inside == full)
      continue;
    Value rest = buildSlice(b, whole, axis, inside, full - inside);
    for (int64_t other = axis + 1; other < getTensor(whole).getRank(); ++other)
      rest = buildSlice(b, rest, other, 0, shape[other]);
    shape[axis] = full;
    box = ConcatOp::create(b, getTensor(box).clone(shape),
                           ValueRange{box, rest}, axis, PrecisionAttr());
  }
  return box;
}

/// Returns, for each element of a tensor of `type`, whether an update along
/// `axis` has its place, and the number of the last such update.
static std::pair<Value, Value> findLast(ImplicitLocOpBuilder &b,
                                        RankedTensorType type, Value places,
                                        int64_t axis) {
  Value isMeant = compareAll(b, type, places, axis);
  RankedTensorType pairs = getTensor(isMeant);
  int64_t rank = type.getRank();
  auto numbers = pairs.clone(b.getF32Type());
  // Number updates from 1; 0 means none. f32 is exact up to 2^24.
  Value number = AddOp::create(
      b, buildCast(b, buildPlaces(b, pairs, rank), b.getF32Type()),
      buildSplat(b, numbers, 1.0));
  Value found =
      SelectOp::create(b, isMeant, number, buildSplat(b, numbers, 0.0));
  Value last = ReduceMaxOp::create(b, found, ArrayRef<int64_t>{rank});
  Value one = buildSplat(b, last.getType(), 1.0);
  Value isUpdated = CompareOp::create(b, last, one, Comparison::GreaterEqual);
  Value which = SubOp::create(b, MaxOp::create(b, last, one), one);
  return {isUpdated, buildCast(b, which, b.getI64Type())};
}

/// Builds the maximum or minimum of each element of `data` and its updates.
/// Equal ones share the gradient, as in PyTorch's scatter_reduce.
static Value takeExtreme(const Scatter &scatter, Value data, Value places,
                         Value updates, int64_t axis) {
  ImplicitLocOpBuilder &b = scatter.b;
  RankedTensorType type = getTensor(data);
  int64_t rank = type.getRank();
  bool isMin = *scatter.combination == Combination::Min;
  auto flip = [&](Value x) { return isMin ? Value(NegOp::create(b, x)) : x; };
  Value isMeant = compareAll(b, type, places, axis);
  auto pairs = type.clone(getTensor(isMeant).getShape());
  Value terms =
      SelectOp::create(b, isMeant, broadcastAlong(b, type, flip(updates), axis),
                       buildNeutral(b, Combination::Max, pairs));
  SmallVector<int64_t> shape(type.getShape());
  shape.push_back(1);
  Value own = buildReshape(b, flip(data), shape);
  shape.back() = pairs.getShape().back() + 1;
  Value all = ConcatOp::create(b, type.clone(shape), ValueRange{own, terms},
                               rank, PrecisionAttr());
  return flip(ReduceMaxOp::create(b, all, ArrayRef<int64_t>{rank}));
}

/// Applies `updates`, whose shape differs from that of `data` only along
/// `axis`.
static Value scatterAlong(const Scatter &scatter, Value data, Value places,
                          Value updates, int64_t axis) {
  ImplicitLocOpBuilder &b = scatter.b;
  RankedTensorType type = getTensor(data);
  int64_t count = getTensor(places).getDimSize(axis), rank = type.getRank();
  bool isExtreme = scatter.combination == Combination::Max ||
                   scatter.combination == Combination::Min;
  if (isExtreme && isa<FloatType>(type.getElementType()))
    return takeExtreme(scatter, data, places, updates, axis);
  if (count <= kMaxSequentialUpdates) {
    Value own = buildPlaces(b, type, axis);
    for (int64_t k = 0; k < count; ++k) {
      auto spread = [&](Value x) {
        return buildBroadcast(b, buildSlice(b, x, axis, k, 1), getAxes(rank),
                              type.getShape());
      };
      Value isMeant =
          CompareOp::create(b, own, spread(places), Comparison::Equal);
      data = scatter.applyWhere(isMeant, data, spread(updates));
    }
    return data;
  }
  if (scatter.combination) {
    Value isMeant = compareAll(b, type, places, axis);
    auto pairs = type.clone(getTensor(isMeant).getShape());
    Value terms =
        SelectOp::create(b, isMeant, broadcastAlong(b, type, updates, axis),
                         buildNeutral(b, *scatter.combination, pairs));
    return scatter.apply(data,
                         combineAlong(b, *scatter.combination, terms, rank));
  }
  auto [isUpdated, which] = findLast(b, type, places, axis);
  return SelectOp::create(b, isUpdated, gatherAlong(b, updates, which, axis),
                          data);
}

FailureOr<Value> mlir::binade::importer::replaceAlong(Node &node, Value data,
                                                      Value places,
                                                      Value updates,
                                                      int64_t axis) {
  if (failed(requirePairs(node, getTensor(data).getNumElements(),
                          getTensor(places).getDimSize(axis))))
    return failure();
  return scatterAlong({node.b, std::nullopt}, data, places, updates, axis);
}

/// Adds to each row of `table`, [rows, ...], the sum of its updates.
static Value addRows(ImplicitLocOpBuilder &b, Value table, Value numbers,
                     Value updates) {
  Value sum = GatherGradOp::create(b, table.getType(), updates, numbers,
                                   PrecisionAttr());
  return AddOp::create(b, table, sum);
}

LogicalResult mlir::binade::importer::importScatterElements(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType data = node.getType(0), places = node.getType(1);
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", 0), data.getRank());
  if (failed(axis) || failed(requireIndices(node, 1)))
    return failure();
  bool fits = places.getRank() == data.getRank() &&
              node.getShape(2) == places.getShape();
  for (int64_t other = 0; fits && other < data.getRank(); ++other)
    fits = other == *axis || places.getDimSize(other) <= data.getDimSize(other);
  if (!fits)
    return node.emitError()
           << "cannot scatter " << node.getType(2) << " to " << data << " at "
           << places << " along axis " << *axis;
  Value whole, updates;
  FailureOr<Scatter> scatter = readScatter(node, whole, updates);
  if (failed(scatter))
    return failure();
  Value index = getPlaces(node, 1, data.getDimSize(*axis));
  if (places.getNumElements() == 0)
    return node.setResult(node.getInput(0));
  if (scatter->combination == Combination::Add && node.hasFloats(0)) {
    Value numbers = numberElements(b, data.getShape(), index, *axis);
    int64_t count = places.getNumElements();
    Value line = addRows(b, buildReshape(b, whole, data.getNumElements()),
                         buildReshape(b, numbers, count),
                         buildReshape(b, updates, count));
    whole = buildReshape(b, line, data.getShape());
  } else {
    // The part of the data that updates can change.
    Value box = whole;
    for (int64_t other = 0; other < data.getRank(); ++other)
      if (other != *axis)
        box = buildSlice(b, box, other, 0, places.getDimSize(other));
    if (failed(requirePairs(node, getTensor(box).getNumElements(),
                            places.getDimSize(*axis))))
      return failure();
    whole =
        placeBox(b, whole, scatterAlong(*scatter, box, index, updates, *axis));
  }
  return node.setResult(buildCast(b, whole, node.getElement(0)));
}

//===----------------------------------------------------------------------===//
// Rows by tuples of indices
//===----------------------------------------------------------------------===//

/// Returns the same as `findLast` for updates of rows with constant `numbers`.
static std::pair<Value, Value> findLastOf(ImplicitLocOpBuilder &b, int64_t rows,
                                          ArrayRef<int64_t> numbers) {
  SmallVector<bool> isUpdated(rows, false);
  SmallVector<int64_t> which(rows, 0);
  for (auto [update, row] : llvm::enumerate(numbers)) {
    isUpdated[row] = true;
    which[row] = update;
  }
  auto make = [&](Type element, auto &&values) -> Value {
    return ConstantOp::create(
        b, DenseElementsAttr::get(RankedTensorType::get(rows, element),
                                  ArrayRef(values)));
  };
  return {make(b.getI1Type(), isUpdated), make(b.getI64Type(), which)};
}

/// Returns the row that each tuple of input 1 selects; nothing if the input is
/// not constant or a tuple is out of bounds.
static std::optional<SmallVector<int64_t>>
readSelectedRows(Node &node, ArrayRef<int64_t> counted) {
  if (!node.getConstant(1))
    return std::nullopt;
  FailureOr<SmallVector<int64_t>> indices = node.getIntegers(1, "indices");
  SmallVector<int64_t> rows;
  for (size_t begin = 0; begin < indices->size(); begin += counted.size()) {
    int64_t row = 0;
    for (auto [axis, length] : llvm::enumerate(counted)) {
      int64_t place = (*indices)[begin + axis];
      if (place < -length || place >= length)
        return std::nullopt;
      row = row * length + (place < 0 ? place + length : place);
    }
    rows.push_back(row);
  }
  return rows;
}

LogicalResult mlir::binade::importer::importScatterND(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType data = node.getType(0), indices = node.getType(1);
  if (failed(requireIndices(node, 1)))
    return failure();
  int64_t depth = indices.getRank() > 0 ? indices.getShape().back() : 0;
  bool fits = depth >= 1 && depth <= data.getRank();
  SmallVector<int64_t> expected;
  if (fits) {
    llvm::append_range(expected, indices.getShape().drop_back());
    llvm::append_range(expected, data.getShape().drop_front(depth));
  }
  if (!fits || node.getShape(2) != ArrayRef(expected))
    return node.emitError() << "cannot scatter " << node.getType(2) << " to "
                            << data << " at " << indices;
  Value table, updates;
  FailureOr<Scatter> scatter = readScatter(node, table, updates);
  if (failed(scatter))
    return failure();
  ArrayRef<int64_t> counted = data.getShape().take_front(depth);
  int64_t count = ShapedType::getNumElements(indices.getShape().drop_back());
  if (count == 0 || data.getNumElements() == 0)
    return node.setResult(node.getInput(0));
  int64_t rows = ShapedType::getNumElements(counted);
  int64_t width = data.getNumElements() / rows;
  table = buildReshape(b, table, {rows, width});
  updates = buildReshape(b, updates, {count, width});
  bool isSum = scatter->combination == Combination::Add && node.hasFloats(0);
  auto known = readSelectedRows(node, counted);
  Value numbers;
  if (!known || isSum || scatter->combination)
    numbers = buildReshape(b, numberRows(node, 1, counted, 0), count);
  if (isSum) {
    table = addRows(b, table, numbers, updates);
  } else if (scatter->combination ||
             (!known && count <= kMaxSequentialUpdates)) {
    if (failed(requirePairs(node, data.getNumElements(), count)))
      return failure();
    // All elements of a row have the same place along axis 0.
    Value places = buildBroadcast(b, numbers, {0}, {count, width});
    table = scatterAlong(*scatter, table, places, updates, 0);
  } else {
    if (!known && failed(requirePairs(node, rows, count)))
      return failure();
    auto [isUpdated, which] =
        known ? findLastOf(b, rows, *known)
              : findLast(b, RankedTensorType::get(rows, b.getI64Type()),
                         numbers, 0);
    Value chosen = GatherOp::create(b, updates, which, PrecisionAttr());
    table = SelectOp::create(
        b, buildBroadcast(b, isUpdated, {0}, {rows, width}), chosen, table);
  }
  table = buildReshape(b, table, data.getShape());
  return node.setResult(buildCast(b, table, node.getElement(0)));
}
