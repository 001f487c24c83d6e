//===- Quantization.cpp - Quantize, dequantize and their parts ------------===//

#include "BlockScales.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Quantization.cpp.inc"

/// Random numbers per counter: all that it gives.
static constexpr int64_t kPerCounter = 4;

static ArrayRef<int64_t> getShape(Value x) {
  return cast<RankedTensorType>(x.getType()).getShape();
}

/// Checks that `types` are the parts of a tensor of `shape` in `format`.
static LogicalResult verifyParts(Operation *op, QuantizedAttr format,
                                 ArrayRef<int64_t> shape, TypeRange types) {
  SmallVector<RankedTensorType> parts = format.getParts(shape);
  SmallVector<Type> expected(parts.begin(), parts.end());
  if (types == TypeRange(expected))
    return success();
  return op->emitOpError("expects ")
         << format << " to keep a tensor of shape [" << shape << "] as ("
         << expected << "), got (" << types << ")";
}

//===----------------------------------------------------------------------===//
// QuantizeOp
//===----------------------------------------------------------------------===//

void QuantizeOp::build(OpBuilder &b, OperationState &state, Value x,
                       QuantizedAttr format, bool saturate, Value rng,
                       uint32_t stream) {
  SmallVector<RankedTensorType> parts = format.getParts(::getShape(x));
  build(b, state, SmallVector<Type>(parts.begin(), parts.end()), x, Value(),
        rng, format, saturate,
        rng ? b.getI64IntegerAttr(stream) : IntegerAttr());
}

/// Its parts need different loops, so `binade-expand-composites` decomposes it.
Schedule QuantizeOp::getSchedule() { return Schedule::Library; }

LogicalResult QuantizeOp::verify() {
  bool draws = getFormat().draws();
  if (bool(getRng()) != draws || getStream().has_value() != draws) // C2
    return emitOpError(
        draws ? (getFormat().getStochastic()
                     ? "expects 'rng' and 'stream', because its format is "
                       "'stochastic'"
                     : "expects 'rng' and 'stream', because its scales are "
                       "rounded stochastically")
              : "expects neither 'rng' nor 'stream', because its format is not "
                "'stochastic'");
  if (draws && failed(verifyStream(*this, *getStream()))) // C2
    return failure();
  if (getAmax() && getFormat().getHistory() == 0) // C3
    return emitOpError("expects no 'amax', because its format has no history");
  return verifyParts(*this, getFormat(), ::getShape(getX()),
                     getResultTypes()); // C1
}

/// Resizes the trailing axes of `x` to `sizes`: appends zeros, or drops the
/// last elements.
static Value resize(ImplicitLocOpBuilder &b, Value x, ArrayRef<int64_t> sizes) {
  auto type = cast<RankedTensorType>(x.getType());
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<int64_t> starts(shape.size(), 0), steps(shape.size(), 1);
  llvm::copy(sizes, shape.end() - sizes.size());
  auto wanted = RankedTensorType::get(shape, type.getElementType());
  if (wanted == type)
    return x;
  if (wanted.getNumElements() > type.getNumElements())
    return PadOp::create(b, wanted, x, starts, steps);
  return SliceOp::create(b, wanted, x, starts, steps);
}

/// Returns the sizes of the last two axes, 1 for a missing axis.
static std::pair<int64_t, int64_t> getLastTwoSizes(ArrayRef<int64_t> shape) {
  size_t rank = shape.size();
  return {rank > 1 ? shape[rank - 2] : 1, rank > 0 ? shape[rank - 1] : 1};
}

/// Returns `format` with groups no larger than a tensor of `shape`; the rest of
/// a larger group would be padding.
static QuantizedAttr fitGroups(QuantizedAttr format, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> extent(format.getExtent());
  auto fit = [&](size_t axis, int64_t length) {
    extent[axis] = std::min(extent[axis], std::max<int64_t>(length, 1));
  };
  auto [rows, columns] = getLastTwoSizes(shape);
  if (format.getGranularity() == Granularity::PerGroup) {
    fit(0, ShapedType::getNumElements(shape));
  } else if (format.getGranularity() == Granularity::PerBlock) {
    fit(0, rows);
    fit(1, columns);
  }
  return format.withGroups(format.getGranularity(), extent);
}

/// Returns `x`, padded with zeros and reshaped so that the elements that share
/// a scale form a row; null if they are not consecutive.
static Value arrangeRows(ImplicitLocOpBuilder &b, Value x,
                         QuantizedAttr format) {
  ArrayRef<int64_t> shape = ::getShape(x);
  switch (format.getGranularity()) {
  case Granularity::PerTensor:
    return {};
  case Granularity::PerRow:
    return shape.empty() ? Value() : x;
  case Granularity::PerGroup: {
    int64_t size = format.getExtent().front();
    int64_t count = ShapedType::getNumElements(shape);
    int64_t groups = llvm::divideCeil(count, size);
    x = resize(b, buildReshape(b, x, {count}), {groups * size});
    return buildReshape(b, x, {groups, size});
  }
  case Granularity::PerBlock: {
    int64_t size = format.getExtent()[1],
            columns = getLastTwoSizes(shape).second;
    if (format.getExtent()[0] != 1)
      return {};
    int64_t rows = ShapedType::getNumElements(shape) / columns;
    int64_t groups = llvm::divideCeil(columns, size);
    x = resize(b, buildReshape(b, x, {rows, columns}), {groups * size});
    return buildReshape(b, x, {rows * groups, size});
  }
  }
  llvm_unreachable("all granularities are listed");
}

/// Reverses `arrangeRows`: reshapes quantized rows to `shape`, without padding.
static Value restoreShape(ImplicitLocOpBuilder &b, Value codes,
                          ArrayRef<int64_t> shape, QuantizedAttr format) {
  int64_t count = ShapedType::getNumElements(shape);
  int64_t padded = cast<RankedTensorType>(codes.getType()).getNumElements();
  if (format.getGranularity() == Granularity::PerBlock) {
    int64_t columns = getLastTwoSizes(shape).second, rows = count / columns;
    codes = buildReshape(b, codes, {rows, padded / rows});
    codes = resize(b, codes, {columns});
  } else if (padded != count) {
    codes = resize(b, buildReshape(b, codes, {padded}), {count});
  }
  return buildReshape(b, codes, shape);
}

/// For blocks, returns `x`, padded with zeros and reshaped to [block row, row,
/// block column, column]. Blocks of one column are only padded: they are groups
/// along the second to last axis. Other formats need no arrangement.
static Value arrangeBlocks(ImplicitLocOpBuilder &b, Value x,
                           QuantizedAttr format) {
  if (format.getGranularity() != Granularity::PerBlock)
    return x;
  auto [rows, columns] = getLastTwoSizes(::getShape(x));
  int64_t high = format.getExtent()[0], wide = format.getExtent()[1];
  int64_t down = llvm::divideCeil(rows, high);
  int64_t across = llvm::divideCeil(columns, wide);
  int64_t matrices =
      ShapedType::getNumElements(::getShape(x)) / (rows * columns);
  x = buildReshape(b, x, {matrices, rows, columns});
  x = resize(b, x, {down * high, across * wide});
  if (wide == 1)
    return x;
  return buildReshape(b, x, {matrices * down, high, across, wide});
}

/// The smallest tensor whose maximum is computed row by row.
static constexpr int64_t kMinRows = 64, kMinColumns = 64;
/// Columns to which shorter rows are joined, and the most that these have then.
static constexpr int64_t kManyColumns = 1024, kMaxColumns = 4096;

namespace {
/// Consecutive elements along an axis, counted from the last, that share a
/// scale.
struct Groups {
  int64_t size, axis;
};
} // namespace

/// Returns the groups of `format` if they divide an axis of `shape`.
static std::optional<Groups> findGroups(ArrayRef<int64_t> shape,
                                        QuantizedAttr format) {
  Groups groups = {0, -1};
  ArrayRef<int64_t> extent = format.getExtent();
  if (format.getGranularity() == Granularity::PerGroup)
    groups.size = extent[0];
  else if (format.getGranularity() == Granularity::PerBlock && extent[0] == 1)
    groups.size = extent[1];
  else if (format.getGranularity() == Granularity::PerBlock && extent[1] == 1)
    groups = {extent[0], -2};
  auto rank = static_cast<int64_t>(shape.size());
  if (groups.size == 0 || rank < -groups.axis ||
      shape[rank + groups.axis] % groups.size != 0)
    return std::nullopt;
  return groups;
}

/// Returns the first axis of the rows whose maxima are computed before that of
/// the tensor: the last axis, or more of them if it is short, such as the
/// columns of a head. Returns the rank if there are too few rows.
static int64_t findRows(ArrayRef<int64_t> shape) {
  auto rank = static_cast<int64_t>(shape.size());
  int64_t most = ShapedType::getNumElements(shape) / kMinRows;
  if (rank == 0 || shape.back() < kMinColumns || shape.back() > most)
    return rank;
  int64_t first = rank - 1, columns = shape.back();
  while (first > 0 && columns < kManyColumns &&
         columns * shape[first - 1] <= std::min(kMaxColumns, most))
    columns *= shape[--first];
  return first;
}

/// Returns the largest element of `x`.
static Value buildLargestOfTensor(ImplicitLocOpBuilder &b, Value x) {
  auto rank = static_cast<int64_t>(::getShape(x).size());
  // A kernel that iterates over rows can compute their maxima on the way.
  if (int64_t kept = findRows(::getShape(x)); kept < rank) {
    x = ReduceMaxOp::create(b, x,
                            llvm::to_vector(llvm::seq<int64_t>(kept, rank)));
    rank = kept;
  }
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  return axes.empty() ? x : ReduceMaxOp::create(b, x, axes).getResult();
}

/// Returns the largest element of each row, tensor or block that shares a
/// scale. `x` is a result of `arrangeRows` or `arrangeBlocks`.
static Value buildLargest(ImplicitLocOpBuilder &b, Value x,
                          QuantizedAttr format) {
  SmallVector<int64_t> shape(::getShape(x));
  if (std::optional<Groups> groups = findGroups(shape, format))
    return GroupMaxOp::create(
        b,
        cast<RankedTensorType>(x.getType()).clone(format.getScaleShape(shape)),
        x, groups->size, groups->axis);
  SmallVector<int64_t> axes;
  switch (format.getGranularity()) {
  case Granularity::PerTensor:
    return buildLargestOfTensor(b, x);
  case Granularity::PerBlock:
    // Rows of blocks first, which leaves few elements to the second reduction.
    x = ReduceMaxOp::create(b, x, ArrayRef<int64_t>{3});
    axes = {1};
    break;
  default:
    if (!shape.empty())
      axes = {static_cast<int64_t>(shape.size()) - 1};
  }
  return axes.empty() ? x : ReduceMaxOp::create(b, x, axes).getResult();
}

/// Like `buildLargest`, returns the smallest nonzero magnitudes; infinity if
/// all are 0.
static Value buildSmallest(ImplicitLocOpBuilder &b, Value magnitude,
                           QuantizedAttr format) {
  Value zero = buildSplat(b, magnitude.getType(), 0.0);
  Value isZero = CompareOp::create(b, magnitude, zero, Comparison::Equal);
  Value negative =
      SelectOp::create(b, isZero, buildSplat(b, magnitude.getType(), -INFINITY),
                       NegOp::create(b, magnitude));
  return NegOp::create(b, buildLargest(b, negative, format));
}

/// Returns the sum of each block of `x`, whose order `rounded_four_six`
/// defines. `x` has the shape of the elements that are encoded in `arranged`.
static Value buildSumsOfBlocks(ImplicitLocOpBuilder &b, Value x,
                               QuantizedAttr arranged, bool isColumn) {
  SmallVector<int64_t> shape(::getShape(x));
  SmallVector<int64_t> scaleShape = arranged.getScaleShape(shape);
  int64_t count = ShapedType::getNumElements(shape);
  std::optional<Groups> groups = findGroups(shape, arranged);
  if (groups && groups->axis == -2) {
    x = buildReshape(
        b, x,
        {count / (groups->size * shape.back()), groups->size, shape.back(), 1});
  } else if (groups || arranged.getGranularity() == Granularity::PerRow) {
    int64_t size = groups ? groups->size : shape.back();
    x = buildReshape(b, x, {count / size, 1, 1, size});
  } else {
    auto [rows, columns] = getLastTwoSizes(shape);
    int64_t high = arranged.getExtent()[0], wide = arranged.getExtent()[1];
    int64_t across = llvm::divideCeil(columns, wide);
    x = arrangeBlocks(b, x, arranged);
    int64_t padded = cast<RankedTensorType>(x.getType()).getNumElements();
    x = buildReshape(b, x,
                     {padded / (high * wide * across), high, across, wide});
  }
  return buildReshape(b, buildSumsInOrder(b, x, isColumn), scaleShape);
}

/// Packs two codes into each byte, the first in the upper half.
static Value pack(ImplicitLocOpBuilder &b, Value codes) {
  int64_t count = cast<RankedTensorType>(codes.getType()).getNumElements();
  int64_t bytes = llvm::divideCeil(count, 2);
  codes = resize(b, buildReshape(b, codes, {count}), {2 * bytes});
  codes = buildReshape(b, codes, {bytes, 2});
  auto takeHalf = [&](int64_t which) {
    Value half = SliceOp::create(
        b, RankedTensorType::get({bytes, 1}, b.getI8Type()), codes,
        ArrayRef<int64_t>{0, which}, ArrayRef<int64_t>{1, 1});
    return buildReshape(b, half, {bytes});
  };
  Value high = takeHalf(0);
  high = MulOp::create(b, high, buildSplat(b, high.getType(), 16));
  return AddOp::create(b, high, takeHalf(1));
}

/// Whether a kernel that may quantize `value` reads it.
static bool isReadByRows(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    auto kernelOp = dyn_cast<KernelOpInterface>(user);
    if (!kernelOp)
      return false;
    if (kernelOp.isRecomputed())
      return isReadByRows(user->getResult(0));
    return kernelOp.getSchedule() == Schedule::Elementwise ||
           kernelOp.getSchedule() == Schedule::RowReduction;
  });
}

/// Whether the kernels that read `view` should quantize it in its shape: no
/// kernel computes `base`, of which it is a view, or one that can compute it in
/// any shape while others read the view.
static bool isReadInItsShape(Value view, Value base, Operation *quantize) {
  auto producer = base.getDefiningOp<KernelOpInterface>();
  if (!producer || producer.getSchedule() == Schedule::Library)
    return true;
  return getTarget(quantize) && isa<ElementwiseOpInterface>(*producer) &&
         isReadByRows(view);
}

/// Returns the value of which `x` is a view, so that the kernel that computes
/// it can quantize it. Stops at a view that changes which elements share a
/// scale.
static Value lookThroughViews(Value x, QuantizedAttr format,
                              Operation *quantize) {
  Value read = x;
  while (auto view = x.getDefiningOp<ReshapeOp>()) {
    ArrayRef<int64_t> before = ::getShape(view.getX()), after = ::getShape(x);
    bool isFlat = format.getGranularity() == Granularity::PerTensor ||
                  format.getGranularity() == Granularity::PerGroup;
    bool isOfRows = format.getGranularity() == Granularity::PerRow ||
                    (findGroups(after, format) && findGroups(before, format));
    bool keepsRows =
        !before.empty() && !after.empty() && before.back() == after.back();
    if (!isFlat && !(isOfRows && keepsRows))
      break;
    x = view.getX();
  }
  return isReadInItsShape(read, x, quantize) ? read : x;
}

/// Arranges elements that share a scale as rows if possible, because one kernel
/// can measure and quantize rows.
FailureOr<SmallVector<Value>> QuantizeOp::decompose(ImplicitLocOpBuilder &b) {
  QuantizedAttr format = fitGroups(getFormat(), ::getShape(getX()));
  QuantizedAttr arranged = format.comparesScales() || format.correctsScales()
                               ? format.withChosenScale()
                               : format;
  if (format.getHistory() > 0 && !getAmax())
    return failure();
  Value x = lookThroughViews(getX(), format, *this);
  ArrayRef<int64_t> shape = ::getShape(x);
  SmallVector<int64_t> scaleShape = format.getScaleShape(::getShape(getX()));
  std::optional<Groups> groups = findGroups(shape, format);
  Value rows = groups ? Value() : arrangeRows(b, x, format);
  if (rows) {
    arranged = arranged.withGroups(Granularity::PerRow, {});
    x = rows;
  }
  // Casts follow the views, because kernels widen operands, but not views of
  // operands.
  auto widen = [&](Value value) { return buildCast(b, value, b.getF32Type()); };
  if (format.takesRoots())
    x = SqrtOp::create(b, widen(x));
  Value blocks = groups ? x : arrangeBlocks(b, x, arranged);
  Value magnitude = AbsOp::create(b, widen(blocks));
  x = widen(x);
  SmallVector<int64_t> arrangedScaleShape =
      arranged.getScaleShape(::getShape(x));
  Value amax = getAmax();
  if (!amax)
    amax = buildReshape(b, buildLargest(b, magnitude, arranged),
                        arrangedScaleShape);
  Value smallest;
  if (format.getExpand())
    smallest = buildReshape(b, buildSmallest(b, magnitude, arranged),
                            arrangedScaleShape);
  BlockScales factors;
  SmallVector<Value> expansion;
  if (format.hasBlockScales()) {
    // A kernel that finds the maxima of groups along rows can find those of
    // the rows; otherwise the largest magnitudes of blocks are fewer elements.
    bool hasRows = groups && groups->axis == -1;
    Value largest;
    if (format.getTensorScale())
      largest = buildLargestOfTensor(b, hasRows ? magnitude : amax);
    auto addUp = [&](Value squares) {
      return buildSumsOfBlocks(b, squares, arranged,
                               getFormat().getExtent()[1] == 1);
    };
    factors =
        format.comparesScales()
            ? chooseBetterScales(b, amax, largest, x, format, arranged, addUp)
            : chooseBlockScales(b, amax, largest, format);
    if (format.correctsScales())
      correctScales(b, factors, largest, x, getFormat(), arranged, addUp,
                    buildRandomTensor(b, getRng(), *getStream(), scaleShape,
                                      kPerCounter));
  } else {
    auto chosen = ChooseScaleOp::create(b, amax, smallest, arranged);
    factors = {chosen.getScale(), chosen.getFactor(), Value()};
    llvm::append_range(expansion, chosen.getExpansion());
  }
  SmallVector<Value> rest(expansion);
  if (format.getStochastic()) {
    Value random =
        buildRandomTensor(b, getRng(), *getStream(), shape, kPerCounter);
    rest.push_back(rows ? arrangeRows(b, random, format) : random);
  }
  Value codes = EncodeOp::create(
      b, RankedTensorType::get(::getShape(x), format.getCodeType()), x,
      factors.factor, rest, arranged, getSaturate());
  if (rows)
    codes = restoreShape(b, codes, shape, format);
  SmallVector<Value> parts = {format.isPacked()
                                  ? pack(b, codes)
                                  : buildReshape(b, codes, ::getShape(getX()))};
  parts.push_back(buildReshape(b, factors.scale, scaleShape));
  for (Value value : expansion)
    parts.push_back(buildReshape(b, value, scaleShape));
  if (factors.tensorScale)
    parts.push_back(factors.tensorScale);
  return parts;
}

//===----------------------------------------------------------------------===//
// DequantizeOp
//===----------------------------------------------------------------------===//

Schedule DequantizeOp::getSchedule() { return Schedule::Elementwise; }

/// Kernels read the quantized value, which has fewer bytes.
bool DequantizeOp::isRecomputed() { return true; }

LogicalResult DequantizeOp::verify() {
  return verifyParts(*this, getFormat(), ::getShape(getY()),
                     getOperandTypes()); // C1
}

//===----------------------------------------------------------------------===//
// GroupMaxOp
//===----------------------------------------------------------------------===//

Schedule GroupMaxOp::getSchedule() { return Schedule::RowReduction; }

Reduced GroupMaxOp::getReduced() {
  int64_t rank = cast<RankedTensorType>(getX().getType()).getRank();
  return {{rank + static_cast<int64_t>(getAxis())},
          static_cast<int64_t>(getSize())};
}

LogicalResult GroupMaxOp::verify() {
  auto x = cast<RankedTensorType>(getX().getType());
  auto y = cast<RankedTensorType>(getY().getType());
  auto size = static_cast<int64_t>(getSize()),
       axis = static_cast<int64_t>(getAxis());
  if (x.getRank() < -axis || size < 1 ||
      x.getDimSize(x.getRank() + axis) % size != 0) // C1
    return emitOpError("expects groups that divide axis ")
           << axis << " of " << x << ", got groups of " << size;
  if (y.getElementType() != x.getElementType() ||
      y.getNumElements() * size != x.getNumElements()) // C2
    return emitOpError("expects an element for each group of ")
           << size << " of " << x << ", got " << y;
  return success();
}

//===----------------------------------------------------------------------===//
// ChooseScaleOp and EncodeOp
//===----------------------------------------------------------------------===//

void ChooseScaleOp::build(OpBuilder &b, OperationState &state, Value amax,
                          Value least, QuantizedAttr format) {
  auto type = cast<RankedTensorType>(amax.getType());
  SmallVector<Type> expansion(format.getExpand() ? 2 : 0, type);
  build(b, state, type.clone(format.getScale()), type, expansion, amax, least,
        format);
}

Schedule ChooseScaleOp::getSchedule() { return Schedule::Elementwise; }

LogicalResult ChooseScaleOp::verify() {
  bool expands = getFormat().getExpand();
  if (expands != bool(getLeast())) // C1
    return emitOpError(expands ? "expects the smallest magnitudes, too"
                               : "expects no smallest magnitudes");
  if (getFormat().hasBlockScales()) // C3
    return emitOpError("expects neither a scale of the tensor nor a rule that "
                       "rounds scales to f8E4M3FN; 'quantize' computes these");
  auto type = cast<RankedTensorType>(getAmax().getType());
  SmallVector<Type> expected = {type.clone(getFormat().getScale()), type};
  expected.append(expands ? 2 : 0, type);
  if (getResultTypes() != TypeRange(expected) ||
      (expands && getLeast().getType() != type)) // C2
    return emitOpError("expects results (")
           << expected << "), got (" << getResultTypes() << ")";
  return success();
}

Schedule EncodeOp::getSchedule() { return Schedule::Elementwise; }

LogicalResult EncodeOp::verify() {
  QuantizedAttr format = getFormat();
  auto x = cast<RankedTensorType>(getX().getType());
  SmallVector<Type> expected(format.countFactors(),
                             x.clone(format.getScaleShape(x.getShape())));
  if (format.getStochastic())
    expected.push_back(x);
  TypeRange factors = ValueRange(getOperands()).drop_front().getTypes();
  if (factors != TypeRange(expected)) // C1, C2
    return emitOpError("expects factors (")
           << expected << "), got (" << factors << ")";
  auto codes = x.clone(format.getCodeType());
  if (getCodes().getType() != codes) // C2
    return emitOpError("expects codes of type ")
           << codes << ", got " << getCodes().getType();
  return success();
}

/// Scales that no element shares are those of zeros: quantizes a tensor of
/// zeros in which axes without elements have length 1, and returns its scales.
FailureOr<SmallVector<Value>>
QuantizeOp::buildWithoutElements(ImplicitLocOpBuilder &b) {
  auto type = cast<RankedTensorType>(getX().getType());
  SmallVector<int64_t> shape(type.getShape());
  llvm::replace(shape, int64_t(0), int64_t(1));
  Value zeros = buildSplat(b, type.clone(shape), 0.0);
  SmallVector<RankedTensorType> parts = getFormat().getParts(shape);
  auto filled = QuantizeOp::create(
      b, SmallVector<Type>(parts.begin(), parts.end()), zeros, getAmax(),
      getRng(), getFormatAttr(), getSaturateAttr(), getStreamAttr());
  SmallVector<Value> values = buildZeros(b, getResultTypes());
  for (auto [value, part] : llvm::zip_equal(values, filled.getResults()))
    if (!hasNoElements(value.getType()))
      value = part;
  return values;
}
