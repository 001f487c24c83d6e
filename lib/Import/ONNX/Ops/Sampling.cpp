//===- Sampling.cpp - Import of GridSample and AffineGrid -----------------===//
//
// Samples are interpolated between elements. Elements outside the image are 0,
// or those of the padding mode.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Arithmetic.h"
#include "Taps.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
class Sampler {
public:
  explicit Sampler(Node &node) : node(node), b(node.b) {}
  LogicalResult buildSamples();

private:
  LogicalResult readSampling();
  SmallVector<Tap> findSamplingTaps(Value coordinate, int64_t length);
  Tap findTap(Value at, Value weight, int64_t length);
  Value reflect(Value x, int64_t length);
  SmallVector<Value> getCubicWeights(Value t);
  Value getCoordinate(int64_t axis);

  Node &node;
  ImplicitLocOpBuilder &b;
  StringRef mode, padding;
  bool alignsCorners = false;
  Value grid;
  /// Lengths of axes; `samples` includes N.
  SmallVector<int64_t> spatial, samples;
};
} // namespace

LogicalResult Sampler::readSampling() {
  mode = node.getString("mode", node.getOpset() < 20 ? "bilinear" : "linear");
  if (mode.consume_front("bi") && mode != "linear" && mode != "cubic")
    mode = "";
  padding = node.getString("padding_mode", "zeros");
  alignsCorners = node.getInt("align_corners", 0);
  if ((mode != "linear" && mode != "nearest" && mode != "cubic") ||
      (padding != "zeros" && padding != "border" && padding != "reflection"))
    return node.emitUnsupported()
           << "expected a mode of linear, nearest or cubic and a padding_mode "
           << "of zeros, border or reflection";
  if (failed(requireFloats(node)) || failed(requireFloats(node, 1)))
    return failure();
  RankedTensorType x = node.getType(0), places = node.getType(1);
  int64_t axes = x.getRank() - 2;
  if (axes < 1 || places.getRank() != x.getRank() ||
      places.getShape().back() != axes ||
      places.getDimSize(0) != x.getDimSize(0))
    return node.emitUnsupported() << "cannot sample " << x << " at " << places;
  spatial.assign(x.getShape().begin() + 2, x.getShape().end());
  samples.assign(places.getShape().begin(), places.getShape().end() - 1);
  bool isEmpty =
      llvm::is_contained(spatial, 0) && !llvm::is_contained(samples, 0);
  if (isEmpty)
    return node.emitUnsupported()
           << "cannot sample " << x << ", which has no elements";
  Type element =
      node.getElement(0).isF64() ? Type(b.getF64Type()) : Type(b.getF32Type());
  grid = buildCast(b, node.getInput(1), element);
  return success();
}

/// Builds the coordinates of samples along spatial axis `axis`, in elements.
/// The grid lists the last axis first, and ranges from -1 to 1.
Value Sampler::getCoordinate(int64_t axis) {
  int64_t rank = node.getRank(1);
  Value one = buildSlice(b, grid, rank - 1, spatial.size() - 1 - axis, 1);
  one = buildReshape(b, one, samples);
  auto length = static_cast<double>(spatial[axis]);
  Arithmetic a(b, one);
  Value shifted = a.add(one, 1.0);
  return alignsCorners ? a.mul(a.div(shifted, 2.0), length - 1.0)
                       : a.div(a.add(a.mul(shifted, length), -1.0), 2.0);
}

/// Reflects `x` at the borders of an axis of `length`.
Value Sampler::reflect(Value x, int64_t length) {
  double low = alignsCorners ? 0.0 : -0.5;
  double range = static_cast<double>(length) - (alignsCorners ? 1.0 : 0.0);
  Arithmetic a(b, x);
  if (range == 0.0)
    return a.splat(low);
  Value way = AbsOp::create(b, a.add(x, -low));
  Value turns = FloorOp::create(b, a.div(way, range));
  Value rest = a.sub(way, a.mul(turns, range));
  Value half = a.mul(turns, 0.5);
  Value isEven =
      CompareOp::create(b, FloorOp::create(b, half), half, Comparison::Equal);
  return a.add(a.select(isEven, rest, a.sub(a.splat(range), rest)), low);
}

/// Returns the tap of the element at `at`, a whole number, by the padding mode.
Tap Sampler::findTap(Value at, Value weight, int64_t length) {
  if (padding == "reflection")
    at = reflect(at, length);
  return makeTap(b, at, weight, length, padding == "zeros");
}

/// Returns the weights of the elements at -1, 0, 1 and 2 for a sample at `t` in
/// [0, 1) (Keys, 1981).
SmallVector<Value> Sampler::getCubicWeights(Value t) {
  constexpr double kA = -0.75;
  Arithmetic a(b, t);
  Value one = a.splat(1.0);
  auto far = [&](Value x) {
    Value sum = a.add(a.mul(x, kA), -5.0 * kA);
    sum = a.add(a.mul(sum, x), 8.0 * kA);
    return a.add(a.mul(sum, x), -4.0 * kA);
  };
  auto near = [&](Value x) {
    Value sum = a.add(a.mul(x, kA + 2.0), -(kA + 3.0));
    return a.add(a.mul(a.mul(sum, x), x), 1.0);
  };
  Value rest = a.sub(one, t);
  return {far(a.add(t, 1.0)), near(t), near(rest), far(a.add(rest, 1.0))};
}

SmallVector<Tap> Sampler::findSamplingTaps(Value coordinate, int64_t length) {
  Arithmetic a(b, coordinate);
  auto last = static_cast<double>(length) - 1.0;
  // For cubic samples, padding applies to each element separately.
  if (mode != "cubic" && padding != "zeros") {
    if (padding == "reflection")
      coordinate = reflect(coordinate, length);
    coordinate = a.cut(coordinate, 0.0, last);
  }
  if (mode == "nearest")
    return {findTap(RoundOp::create(b, coordinate), Value(), length)};
  Value floor = FloorOp::create(b, coordinate);
  Value t = a.sub(coordinate, floor);
  SmallVector<Value> weights = {a.sub(a.splat(1.0), t), t};
  if (mode == "cubic")
    weights = getCubicWeights(t);
  double first = mode == "cubic" ? -1.0 : 0.0;
  SmallVector<Tap> taps;
  for (auto [index, weight] : llvm::enumerate(weights))
    taps.push_back(findTap(a.add(floor, first + static_cast<double>(index)),
                           weight, length));
  return taps;
}

LogicalResult Sampler::buildSamples() {
  if (failed(readSampling()))
    return failure();
  RankedTensorType type = node.getType(0);
  int64_t rank = type.getRank(), batch = type.getDimSize(0),
          channels = type.getDimSize(1);
  int64_t pixels = ShapedType::getNumElements(spatial);
  Type element = getElementTypeOrSelf(grid.getType());
  // One row of channels per pixel of each image.
  SmallVector<int64_t> last = getAxisLast(rank, 1);
  Value rows = buildTranspose(b, buildCast(b, node.getInput(0), element), last);
  rows = buildReshape(b, rows, {batch * pixels, channels});
  auto places = RankedTensorType::get(samples, b.getI64Type());
  Value image =
      MulOp::create(b, IotaOp::create(b, places, b.getI64IntegerAttr(0)),
                    buildSplat(b, places, static_cast<double>(pixels)));
  SmallVector<Tap> taps = {{image, Value()}};
  SmallVector<int64_t> strides = computeStrides(spatial);
  for (auto [axis, length] : llvm::enumerate(spatial))
    taps = combineTaps(b, taps, findSamplingTaps(getCoordinate(axis), length),
                       strides[axis]);
  Value sum = addTaps(b, rows, taps);
  sum = buildTranspose(b, sum, invertPermutationVector(last));
  return node.setResult(buildCast(b, sum, node.getElement(0)));
}

LogicalResult mlir::binade::importer::importGridSample(Node &node) {
  return Sampler(node).buildSamples();
}

/// Maps a regular grid of constant size by the affine matrices `theta`.
LogicalResult mlir::binade::importer::importAffineGrid(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  FailureOr<SmallVector<int64_t>> size = node.getIntegers(1, "size");
  bool alignsCorners = node.getInt("align_corners", 0);
  if (failed(size) || failed(requireFloats(node)))
    return failure();
  int64_t axes = static_cast<int64_t>(size->size()) - 2;
  RankedTensorType theta = node.getType(0);
  if ((axes != 2 && axes != 3) ||
      theta.getShape() != ArrayRef<int64_t>({size->front(), axes, axes + 1}))
    return node.emitUnsupported()
           << "cannot make a grid of [" << *size << "] by " << theta;
  ArrayRef<int64_t> spatial = ArrayRef(*size).drop_front(2);
  FailureOr<RankedTensorType> grid =
      getTensorType(node.getErrorLoc(), spatial, b.getF64Type());
  if (failed(grid))
    return failure();
  // Homogeneous coordinates, the last axis first: [places, axes + 1].
  SmallVector<Value> columns;
  int64_t places = grid->getNumElements();
  for (int64_t axis = axes - 1; axis >= 0; --axis) {
    auto length = static_cast<double>(spatial[axis]);
    Value place = buildCast(b,
                            IotaOp::create(b, grid->clone(b.getI64Type()),
                                           b.getI64IntegerAttr(axis)),
                            b.getF64Type());
    Arithmetic a(b, place);
    // The ends are -1 and 1, or the centers of the first and last element.
    double divisor = alignsCorners ? std::max(length - 1.0, 1.0) : length;
    double first = alignsCorners ? -1.0 : 1.0 / length - 1.0;
    Value at = a.add(a.div(a.mul(place, 2.0), divisor), first);
    columns.push_back(buildReshape(b, at, {places, 1}));
  }
  auto column = RankedTensorType::get({places, 1}, b.getF64Type());
  columns.push_back(buildSplat(b, column, 1.0));
  auto joined = column.clone({places, axes + 1});
  Value base = ConcatOp::create(b, joined, columns, 1, PrecisionAttr());
  base = buildCast(b, base, theta.getElementType());
  SmallVector<int64_t> all = {size->front(), places, axes + 1};
  base = buildBroadcast(b, base, {1, 2}, all);
  Value mapped = MatmulOp::create(b, base, node.getInput(0), Value(), false,
                                  true, PrecisionAttr());
  SmallVector<int64_t> shape = {size->front()};
  llvm::append_range(shape, spatial);
  shape.push_back(axes);
  return node.setResult(buildReshape(b, mapped, shape));
}
