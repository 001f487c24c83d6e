//===- Regions.cpp - Import of RoiAlign -----------------------------------===//
//
// Each bin of a region is the mean or the maximum of samples on a grid. The
// positions of the samples, between pixels, are computed from the corners of
// the region.
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"
#include "OpTable.h"
#include "Ops/Arithmetic.h"
#include "Ops/Indexing.h"
#include "Ops/Taps.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
class RegionPool {
public:
  explicit RegionPool(Node &node) : node(node), b(node.b) {}
  LogicalResult buildPool();

private:
  LogicalResult readPool();
  FailureOr<SmallVector<double>> countSamples(int64_t axis) const;
  Value getEdge(int64_t axis, bool isEnd) const;
  FailureOr<SmallVector<Tap>> findRegionTaps(int64_t axis);

  Node &node;
  ImplicitLocOpBuilder &b;
  bool isMax = false;
  double scale = 1.0, offset = 0.0; ///< Convert coordinates to pixels.
  int64_t regions = 0, ratio = 0;
  int64_t bins[2], sizes[2], samples[2]; ///< Along rows and columns.
  Value corners;
};
} // namespace

LogicalResult RegionPool::readPool() {
  bool isOld = node.getOpset() < 16;
  StringRef mode = node.getString("mode", "avg"),
            coordinates =
                node.getString("coordinate_transformation_mode",
                               isOld ? "output_half_pixel" : "half_pixel");
  bins[0] = node.getInt("output_height", 1);
  bins[1] = node.getInt("output_width", 1);
  ratio = node.getInt("sampling_ratio", 0);
  scale = node.getFloat("spatial_scale", 1.0f);
  if ((mode != "avg" && mode != "max") ||
      (coordinates != "half_pixel" && coordinates != "output_half_pixel"))
    return node.emitError()
           << "expected mode avg or max and coordinates of half_pixel or "
              "output_half_pixel";
  isMax = mode == "max";
  offset = coordinates == "half_pixel" ? 0.5 : 0.0;
  if (failed(requireFloats(node)) || failed(requireIndices(node, 2)))
    return failure();
  RankedTensorType x = node.getType(0), rois = node.getType(1);
  regions = node.getRank(2) == 1 ? node.getShape(2)[0] : -1;
  if (x.getRank() != 4 || rois.getShape() != ArrayRef<int64_t>({regions, 4}) ||
      rois.getElementType() != x.getElementType())
    return node.emitError() << "cannot take regions " << rois << " of images "
                            << node.getType(2) << " from " << x;
  if (failed(node.checkCount(regions, kMaxNumbers, "regions")))
    return failure();
  constexpr int64_t kMaxBins = 1 << 12;
  if (x.getDimSize(2) < 1 || x.getDimSize(3) < 1 || ratio < 0)
    return node.emitUnsupported()
           << "cannot take " << ratio << " samples of " << x;
  for (int64_t axis : {0, 1}) {
    if (bins[axis] < 1 || bins[axis] > kMaxBins)
      return node.emitUnsupported()
             << "expected 1 to " << kMaxBins << " bins along an axis, got "
             << bins[axis];
    sizes[axis] = x.getDimSize(2 + axis);
  }
  bool isWide = x.getElementType().isF64();
  corners = buildCast(b, node.getInput(1),
                      isWide ? Type(b.getF64Type()) : Type(b.getF32Type()));
  return success();
}

/// Returns the number of samples per bin along `axis` for each region:
/// `sampling_ratio` or, if it is 0, the number of pixels of the bin, rounded
/// up.
FailureOr<SmallVector<double>> RegionPool::countSamples(int64_t axis) const {
  SmallVector<double> counts(regions, static_cast<double>(ratio));
  if (ratio > 0)
    return counts;
  if (failed(node.requireConstant(1, "regions")))
    return failure();
  Elements rois = unpack(node.getConstant(1));
  for (int64_t region = 0; region < regions; ++region) {
    double begin = rois[region * 4 + 1 - axis].f,
           end = rois[region * 4 + 3 - axis].f;
    double size = (end * scale - offset) - (begin * scale - offset);
    if (offset == 0.0)
      size = std::max(size, 1.0);
    // Rounded to f32 before `ceil`, as other implementations do.
    double pixels = size / static_cast<double>(bins[axis]);
    counts[region] = std::max(std::ceil(static_cast<float>(pixels)), 0.0f);
  }
  return counts;
}

/// Builds the pixel coordinates where the regions begin or end along `axis`.
/// Corners list the column first.
Value RegionPool::getEdge(int64_t axis, bool isEnd) const {
  Value edge = buildSlice(b, corners, 1, (isEnd ? 3 : 1) - axis, 1);
  edge = buildReshape(b, edge, regions);
  Arithmetic a(b, edge);
  return a.add(a.mul(edge, scale), -offset);
}

/// Builds the pixels that samples [regions, bins * samples] read along `axis`,
/// with their weights.
FailureOr<SmallVector<Tap>> RegionPool::findRegionTaps(int64_t axis) {
  FailureOr<SmallVector<double>> counts = countSamples(axis);
  if (failed(counts))
    return failure();
  double most = 1.0;
  for (double count : *counts)
    most = std::max(most, count);
  constexpr int64_t kMaxSamples = 256;
  samples[axis] = static_cast<int64_t>(std::min(most, 0x1p31));
  if (samples[axis] > kMaxSamples)
    return node.emitUnsupported() << "takes " << samples[axis]
                                  << " samples of a bin along an axis; at most "
                                  << kMaxSamples << " are supported";
  Value begin = getEdge(axis, false), size;
  Arithmetic line(b, begin);
  size = line.sub(getEdge(axis, true), begin);
  if (offset == 0.0)
    size = line.max(size, 1.0);
  Value bin = line.div(size, static_cast<double>(bins[axis]));
  // [regions, bins, samples]
  auto type = line.type.clone({regions, bins[axis], samples[axis]});
  auto spread = [&](Value x) {
    return buildBroadcast(b, x, {0}, type.getShape());
  };
  auto number = [&](int64_t along) {
    return buildCast(b, buildPlaces(b, type, along), type.getElementType());
  };
  auto perRegion = [&](function_ref<double(double)> function) {
    Elements numbers{line.type, {}};
    for (double count : *counts)
      numbers.numbers.push_back({.f = function(count)});
    return spread(ConstantOp::create(b, pack(numbers)));
  };
  Value sample = number(2), first = spread(begin), width = spread(bin);
  Value count = perRegion([](double count) { return count; });
  Arithmetic a(b, sample);
  Value isTaken = CompareOp::create(b, sample, count, Comparison::Less);
  // Bins with fewer samples repeat their last one, which does not change the
  // maximum.
  if (isMax) {
    isTaken = a.compare(count, Comparison::Greater, 0.0);
    Value last =
        perRegion([](double count) { return std::max(count, 1.0) - 1.0; });
    sample = MinOp::create(b, sample, last);
  }
  Value distance = DivOp::create(
      b, a.mul(a.add(sample, 0.5), width),
      perRegion([](double count) { return std::max(count, 1.0); }));
  Value at = a.add(a.add(first, a.mul(number(1), width)), distance);
  // Samples up to one pixel outside take the value at the border.
  double length = static_cast<double>(sizes[axis]);
  Value isInside =
      AndOp::create(b, a.compare(at, Comparison::GreaterEqual, -1.0),
                    a.compare(at, Comparison::LessEqual, length));
  Value share = isMax ? a.splat(1.0) : perRegion([](double count) {
    return 1.0 / std::max(count, 1.0);
  });
  share = a.select(AndOp::create(b, isTaken, isInside), share, a.splat(0.0));
  at = a.min(a.max(at, 0.0), length - 1.0);
  SmallVector<Tap> taps = findLinearTaps(b, at, sizes[axis], false);
  for (Tap &tap : taps) {
    SmallVector<int64_t> flat = {regions, bins[axis] * samples[axis]};
    tap.place = buildReshape(b, tap.place, flat);
    tap.weight = buildReshape(b, a.mul(tap.weight, share), flat);
  }
  return taps;
}

LogicalResult RegionPool::buildPool() {
  if (failed(readPool()))
    return failure();
  RankedTensorType x = node.getType(0);
  int64_t channels = x.getDimSize(1), pixels = sizes[0] * sizes[1];
  FailureOr<SmallVector<Tap>> rows = findRegionTaps(0);
  if (failed(rows))
    return failure();
  FailureOr<SmallVector<Tap>> columns = findRegionTaps(1);
  if (failed(columns))
    return failure();
  SmallVector<int64_t> grid = {regions, bins[0] * samples[0],
                               bins[1] * samples[1]};
  auto spread = [&](MutableArrayRef<Tap> taps, int64_t axis) {
    for (Tap &tap : taps) {
      tap.place = buildBroadcast(b, tap.place, {0, axis}, grid);
      tap.weight = buildBroadcast(b, tap.weight, {0, axis}, grid);
    }
  };
  spread(*rows, 1);
  spread(*columns, 2);
  Value image = times(b, getPlaces(node, 2, x.getDimSize(0)), pixels);
  Tap whole = {buildBroadcast(b, image, {0}, grid), Value()};
  SmallVector<Tap> taps = combineTaps(b, combineTaps(b, whole, *rows, sizes[1]),
                                      *columns, /*stride=*/1);
  Value table =
      buildCast(b, node.getInput(0),
                cast<RankedTensorType>(corners.getType()).getElementType());
  table = buildReshape(b, buildTranspose(b, table, {0, 2, 3, 1}),
                       {x.getDimSize(0) * pixels, channels});
  // ONNX takes the maximum of the weighted pixels, not of their sums.
  Value y;
  if (isMax) {
    for (Value part : gatherTaps(b, table, taps)) {
      bool isFirst = !y;
      y = isFirst ? part : Value(MaxOp::create(b, y, part));
      if (!isFirst)
        setTies(y, Ties::First);
    }
  } else {
    y = addTaps(b, table, taps);
  }
  y = buildReshape(
      b, y, {regions, bins[0], samples[0], bins[1], samples[1], channels});
  y = buildReshape(
      b, buildTranspose(b, y, {0, 5, 1, 3, 2, 4}),
      {regions, channels, bins[0], bins[1], samples[0] * samples[1]});
  SmallVector<int64_t> last = {4};
  y = isMax ? Value(ReduceMaxOp::create(b, y, last))
            : Value(ReduceSumOp::create(b, y, last));
  return node.setResult(buildCast(b, y, x.getElementType()));
}

LogicalResult mlir::binade::importer::importRoiAlign(Node &node) {
  return RegionPool(node).buildPool();
}
