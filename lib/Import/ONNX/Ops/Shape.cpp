//===- Shape.cpp - Import of ops that move elements -----------------------===//

#include "../OpTable.h"
#include "../TorchOp.h"
#include "Indexing.h"
#include "binade/IR/Subgradient.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

Value mlir::binade::importer::buildSlice(ImplicitLocOpBuilder &b, Value x,
                                         int64_t axis, int64_t begin,
                                         int64_t size) {
  auto type = cast<RankedTensorType>(x.getType());
  SmallVector<int64_t> shape(type.getShape()), offsets(type.getRank(), 0),
      strides(type.getRank(), 1);
  if (shape[axis] == size)
    return x;
  shape[axis] = size;
  offsets[axis] = begin;
  return SliceOp::create(b, type.clone(shape), x, offsets, strides);
}

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::importer::importReshape(Node &node) {
  FailureOr<SmallVector<int64_t>> shape = node.getIntegers(1, "shape");
  if (failed(shape))
    return failure();
  bool allowZero = node.getInt("allowzero", 0);
  RankedTensorType type = node.getType(0);
  std::optional<size_t> open;
  for (auto [axis, size] : llvm::enumerate(*shape)) {
    if (size == 0 && !allowZero) {
      if (static_cast<int64_t>(axis) >= type.getRank())
        return node.emitError() << "shape [" << *shape << "] copies axis "
                                << axis << ", which " << type << " lacks";
      size = type.getDimSize(axis);
    }
    if (size == -1 && !open) {
      open = axis;
      size = 1;
    }
  }
  if (failed(getTensorType(node.getErrorLoc(), *shape, type.getElementType())))
    return failure();
  int64_t known = ShapedType::getNumElements(*shape);
  if (open)
    (*shape)[*open] = known == 0 ? 0 : type.getNumElements() / known;
  if (ShapedType::getNumElements(*shape) != type.getNumElements())
    return node.emitError() << "cannot reshape " << type << " to [" << *shape
                            << "]: the number of elements differs";
  return node.setResult(buildReshape(node.b, node.getInput(0), *shape));
}

LogicalResult mlir::binade::importer::importFlatten(Node &node) {
  int64_t axis = node.getInt("axis", 1), rank = node.getRank(0);
  if (axis < -rank || axis > rank)
    return node.emitError()
           << "axis " << axis << " is outside of a tensor of rank " << rank;
  ArrayRef<int64_t> shape = node.getShape(0);
  size_t split = axis < 0 ? axis + rank : axis;
  return node.setResult(
      buildReshape(node.b, node.getInput(0),
                   {ShapedType::getNumElements(shape.take_front(split)),
                    ShapedType::getNumElements(shape.drop_front(split))}));
}

LogicalResult mlir::binade::importer::importSqueeze(Node &node) {
  ArrayRef<int64_t> shape = node.getShape(0);
  SmallVector<int64_t> axes;
  if (node.isGiven(1, "axes")) {
    FailureOr<SmallVector<int64_t>> given = node.getGivenIntegers(1, "axes");
    if (failed(given))
      return failure();
    given = node.normalizeAxes(*given, shape.size());
    if (failed(given))
      return failure();
    axes = *given;
  } else {
    for (auto [axis, size] : llvm::enumerate(shape))
      if (size == 1)
        axes.push_back(axis);
  }
  SmallVector<int64_t> result;
  for (auto [axis, size] : llvm::enumerate(shape)) {
    if (!llvm::is_contained(axes, axis))
      result.push_back(size);
    else if (size != 1)
      return node.emitError()
             << "cannot drop axis " << axis << " of " << node.getType(0);
  }
  return node.setResult(buildReshape(node.b, node.getInput(0), result));
}

LogicalResult mlir::binade::importer::importUnsqueeze(Node &node) {
  FailureOr<SmallVector<int64_t>> axes = node.getGivenIntegers(1, "axes");
  if (failed(axes))
    return failure();
  int64_t rank = node.getRank(0) + axes->size();
  axes = node.normalizeAxes(*axes, rank);
  if (failed(axes))
    return failure();
  SmallVector<int64_t> shape(node.getShape(0));
  // Axes are in ascending order, so each is inserted at its final position.
  for (int64_t axis : *axes)
    shape.insert(shape.begin() + axis, 1);
  return node.setResult(buildReshape(node.b, node.getInput(0), shape));
}

//===----------------------------------------------------------------------===//
// Transposes, concatenation and slices
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::importer::importTranspose(Node &node) {
  int64_t rank = node.getRank(0);
  auto reversed = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, rank)));
  SmallVector<int64_t> permutation = node.getInts("perm", reversed);
  if (static_cast<int64_t>(permutation.size()) != rank ||
      !isPermutationVector(permutation))
    return node.emitError() << "[" << permutation
                            << "] is not a permutation of " << rank << " axes";
  return node.setResult(buildTranspose(node.b, node.getInput(0), permutation));
}

LogicalResult mlir::binade::importer::importConcat(Node &node) {
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", 0), node.getRank(0));
  if (failed(axis))
    return failure();
  SmallVector<int64_t> shape(node.getShape(0));
  shape[*axis] = 0;
  for (unsigned index = 0; index < node.getNumInputs(); ++index) {
    SmallVector<int64_t> part(node.getShape(index));
    bool fits = part.size() == shape.size() &&
                node.getElement(index) == node.getElement(0);
    if (fits) {
      shape[*axis] += std::exchange(part[*axis], shape[*axis]);
      part[*axis] = shape[*axis];
    }
    if (!fits || part != shape)
      return node.emitError() << "cannot join " << node.getType(0) << " and "
                              << node.getType(index) << " along axis " << *axis;
  }
  if (node.getNumInputs() == 1)
    return importIdentity(node);
  if (failed(getTensorType(node.getErrorLoc(), shape, node.getElement(0))))
    return failure();
  return node.setResult(ConcatOp::create(node.b, node.getType(0).clone(shape),
                                         node.getInputs(), *axis,
                                         PrecisionAttr()));
}

bool mlir::binade::importer::isSplit(ArrayRef<int64_t> sizes, int64_t length) {
  for (int64_t size : sizes) {
    if (size < 0 || size > length)
      return false;
    length -= size;
  }
  return length == 0;
}

LogicalResult mlir::binade::importer::importSplit(Node &node) {
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", 0), node.getRank(0));
  if (failed(axis))
    return failure();
  int64_t length = node.getShape(0)[*axis], parts = node.getNumOutputs();
  SmallVector<int64_t> sizes;
  if (node.isGiven(1, "split")) {
    FailureOr<SmallVector<int64_t>> given = node.getGivenIntegers(1, "split");
    if (failed(given))
      return failure();
    sizes = *given;
  } else {
    if (int64_t stated = node.getInt("num_outputs", parts); stated != parts)
      return node.emitError()
             << "has " << parts << " outputs, num_outputs is " << stated;
    // The last part is smaller if the axis cannot be divided equally.
    int64_t size = llvm::divideCeil(length, parts);
    for (int64_t rest = length; static_cast<int64_t>(sizes.size()) < parts;
         rest -= sizes.back())
      sizes.push_back(std::min(size, rest));
  }
  if (static_cast<int64_t>(sizes.size()) != parts || !isSplit(sizes, length))
    return node.emitError()
           << "cannot split axis " << *axis << " of " << node.getType(0)
           << " into [" << sizes << "] for " << parts << " outputs";
  int64_t begin = 0;
  for (auto [index, size] : llvm::enumerate(sizes)) {
    node.setOutput(index,
                   buildSlice(node.b, node.getInput(0), *axis, begin, size));
    begin += size;
  }
  return success();
}

/// Returns the positions from `start` down to `end`, exclusive.
static SmallVector<int64_t> listBackward(int64_t start, int64_t end,
                                         int64_t step, int64_t length) {
  auto clamp = [&](int64_t position) {
    if (position < 0)
      position = std::max(position, -length - 1) + length;
    return std::min(position, length - 1);
  };
  SmallVector<int64_t> places;
  int64_t place = clamp(start), last = clamp(end);
  while (place > last) {
    places.push_back(place);
    if (step < last - place)
      break;
    place += step;
  }
  return places;
}

LogicalResult mlir::binade::importer::importSlice(Node &node) {
  FailureOr<SmallVector<int64_t>> starts = node.getGivenIntegers(1, "starts");
  FailureOr<SmallVector<int64_t>> ends = node.getGivenIntegers(2, "ends");
  if (failed(starts) || failed(ends))
    return failure();
  auto ascending = llvm::to_vector(llvm::seq<int64_t>(0, starts->size()));
  FailureOr<SmallVector<int64_t>> axes = ascending;
  if (node.isGiven(3, "axes"))
    axes = node.getGivenIntegers(3, "axes");
  FailureOr<SmallVector<int64_t>> steps =
      SmallVector<int64_t>(starts->size(), 1);
  if (node.hasInput(4))
    steps = node.getIntegers(4, "steps");
  if (failed(axes) || failed(steps))
    return failure();
  if (ends->size() != starts->size() || axes->size() != starts->size() ||
      steps->size() != starts->size())
    return node.emitError() << "starts, ends, axes and steps differ in length";
  int64_t rank = node.getRank(0);
  SmallVector<int64_t> shape(node.getShape(0)), offsets(rank, 0),
      strides(rank, 1);
  SmallVector<std::pair<int64_t, SmallVector<int64_t>>> backward;
  for (auto [start, end, given, step] :
       llvm::zip_equal(*starts, *ends, *axes, *steps)) {
    FailureOr<int64_t> axis = node.normalizeAxis(given, rank);
    if (failed(axis))
      return failure();
    if (step == 0)
      return node.emitError()
             << "expected steps other than 0 along axis " << *axis;
    int64_t length = node.getShape(0)[*axis];
    if (step < 0) {
      if (failed(node.checkCount(length, kMaxNumbers, "places")))
        return failure();
      backward.emplace_back(*axis, listBackward(start, end, step, length));
      continue;
    }
    // Clamp before adding: starts and ends may be the largest i64.
    auto clamp = [&](int64_t position) {
      if (position < 0)
        position = std::max(position, -length) + length;
      return std::min(position, length);
    };
    int64_t begin = clamp(start),
            span = std::max(clamp(end) - begin, int64_t(0));
    shape[*axis] = span == 0 ? 0 : (span - 1) / step + 1;
    offsets[*axis] = begin;
    strides[*axis] = shape[*axis] > 1 ? step : 1;
  }
  Value x = node.getInput(0);
  if (ArrayRef(shape) != node.getShape(0))
    x = SliceOp::create(node.b, node.getType(0).clone(shape), x, offsets,
                        strides);
  for (auto &[axis, places] : backward)
    x = takeAlong(node.b, x, places, axis);
  return node.setResult(x);
}

LogicalResult mlir::binade::importer::importExpand(Node &node) {
  FailureOr<SmallVector<int64_t>> wanted = node.getIntegers(1, "shape");
  if (failed(wanted))
    return failure();
  SmallVector<int64_t> shape = *wanted;
  ArrayRef<int64_t> from = node.getShape(0);
  if (from.size() > shape.size())
    shape.insert(shape.begin(), from.size() - shape.size(), 1);
  for (auto [to, size] :
       llvm::zip(llvm::drop_begin(shape, shape.size() - from.size()), from)) {
    if (to == 1)
      to = size;
    else if (size != 1 && size != to)
      return node.emitError() << "cannot expand " << node.getType(0) << " to ["
                              << *wanted << "]";
  }
  if (failed(getTensorType(node.getErrorLoc(), shape, node.getElement(0))))
    return failure();
  return node.setResult(broadcastTo(node.b, node.getInput(0), shape));
}

/// Repeats each axis by a broadcast along a new axis before it, which is then
/// merged with it.
LogicalResult mlir::binade::importer::importTile(Node &node) {
  FailureOr<SmallVector<int64_t>> repeats = node.getIntegers(1, "repeats");
  if (failed(repeats))
    return failure();
  ArrayRef<int64_t> from = node.getShape(0);
  if (repeats->size() != from.size() ||
      llvm::any_of(*repeats, [](int64_t count) { return count < 0; }))
    return node.emitError() << "cannot repeat " << node.getType(0) << " ["
                            << *repeats << "] times";
  SmallVector<int64_t> split, axes, joined;
  for (auto [count, size] : llvm::zip_equal(*repeats, from)) {
    axes.push_back(split.size() + 1);
    split.append({count, size});
  }
  if (failed(getTensorType(node.getErrorLoc(), split, node.getElement(0))))
    return failure();
  for (auto [count, size] : llvm::zip_equal(*repeats, from))
    joined.push_back(count * size);
  Value copies = buildBroadcast(node.b, node.getInput(0), axes, split);
  return node.setResult(buildReshape(node.b, copies, joined));
}

//===----------------------------------------------------------------------===//
// Gather
//===----------------------------------------------------------------------===//

/// A single constant index becomes a slice, and other indices along axis 0 a
/// `gather`. Other axes are transposed to the front.
LogicalResult mlir::binade::importer::importGather(Node &node) {
  int64_t rank = node.getRank(0);
  FailureOr<int64_t> axis = node.normalizeAxis(node.getInt("axis", 0), rank);
  if (failed(axis))
    return failure();
  Value x = node.getInput(0), indices = node.getInput(1);
  ArrayRef<int64_t> shape = node.getShape(0), places = node.getShape(1);
  if (!node.getElement(1).isInteger(32) && !node.getElement(1).isInteger(64))
    return node.emitError()
           << "expected indices of int32 or int64, got " << node.getType(1);
  int64_t length = shape[*axis];
  FailureOr<std::optional<int64_t>> padding = getPaddingIndex(node);
  if (failed(padding))
    return failure();
  if (node.getConstant(1)) {
    FailureOr<SmallVector<int64_t>> numbers = node.getIntegers(1, "indices");
    if (failed(numbers))
      return failure();
    for (int64_t number : *numbers)
      if (number < -length || number >= length)
        return node.emitError() << "index " << number << " is outside of axis "
                                << *axis << " of " << node.getType(0);
    if (numbers->size() == 1 && !*padding) {
      int64_t begin = numbers->front() + (numbers->front() < 0 ? length : 0);
      SmallVector<int64_t> result(shape.take_front(*axis));
      llvm::append_range(result, places);
      llvm::append_range(result, shape.drop_front(*axis + 1));
      return node.setResult(
          buildReshape(node.b, buildSlice(node.b, x, *axis, begin, 1), result));
    }
  }
  if (*axis == 0) {
    auto rows = GatherOp::create(node.b, x, indices, PrecisionAttr());
    if (*padding)
      rows->setAttr(kPaddingIndexAttr, node.b.getI64IntegerAttr(**padding));
    return node.setResult(rows);
  }
  SmallVector<int64_t> first{*axis};
  for (int64_t other : llvm::seq<int64_t>(0, rank))
    if (other != *axis)
      first.push_back(other);
  Value rows = GatherOp::create(node.b, buildTranspose(node.b, x, first),
                                indices, PrecisionAttr());
  // [places..., axes before, axes after] to [before..., places..., after...].
  int64_t numPlaces = places.size();
  SmallVector<int64_t> back;
  llvm::append_range(back, llvm::seq<int64_t>(numPlaces, numPlaces + *axis));
  llvm::append_range(back, llvm::seq<int64_t>(0, numPlaces));
  llvm::append_range(
      back, llvm::seq<int64_t>(numPlaces + *axis, numPlaces + rank - 1));
  return node.setResult(buildTranspose(node.b, rows, back));
}
