//===- Resize.cpp - Import of Resize and Upsample -------------------------===//
//
// Axes are resized one by one. An element is a weighted sum of neighbors, whose
// positions and weights are computed at import.
//
//===----------------------------------------------------------------------===//

#include "../Evaluate.h"
#include "../OpTable.h"
#include "Indexing.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
/// The attributes, which hold for all axes.
struct Sampling {
  StringRef mode, nearest, coordinates;
  bool antialias, excludesOutside;
  double cubic, extrapolation;
};

/// An axis that is resized from `from` elements to `to`.
struct Resized {
  int64_t axis = 0, from = 0, to = 0;
  double scale = 1.0, begin = 0.0, end = 1.0;
};

/// The sources of the elements of a resized axis: element i is the sum of the
/// elements at `places[tap][i]` times `weights[tap][i]`. `isOutside` marks
/// elements outside the input.
struct Taps {
  std::vector<SmallVector<int64_t>> places;
  std::vector<std::vector<double>> weights;
  SmallVector<bool> isOutside;
};
} // namespace

/// The maximum number of elements of an axis.
static constexpr double kMaxLength = 0x1p31;

static bool isKnown(StringRef word, ArrayRef<StringRef> words) {
  return llvm::is_contained(words, word);
}

static FailureOr<Sampling> readSampling(Node &node) {
  Sampling sampling{
      node.getString("mode", "nearest"),
      node.getString("nearest_mode", "round_prefer_floor"),
      node.getString("coordinate_transformation_mode", "half_pixel"),
      node.getInt("antialias", 0) != 0,
      node.getInt("exclude_outside", 0) != 0,
      node.getFloat("cubic_coeff_a", -0.75f),
      node.getFloat("extrapolation_value", 0.0f)};
  auto reject = [&](StringRef what, StringRef word) {
    return node.emitUnsupported()
           << "does not know " << what << " " << quote(word);
  };
  if (!isKnown(sampling.mode, {"nearest", "linear", "cubic"}))
    return reject("mode", sampling.mode);
  if (!isKnown(sampling.nearest,
               {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}))
    return reject("nearest_mode", sampling.nearest);
  if (!isKnown(sampling.coordinates,
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                "align_corners", "asymmetric", "tf_crop_and_resize"}))
    return reject("coordinate_transformation_mode", sampling.coordinates);
  return sampling;
}

/// Returns the coordinate on the input axis of element `i` of the result.
static double findCoordinate(const Sampling &sampling, const Resized &axis,
                             int64_t i) {
  double place = static_cast<double>(i);
  double last = static_cast<double>(axis.from) - 1.0;
  double length = axis.scale * static_cast<double>(axis.from);
  if (sampling.coordinates == "align_corners")
    return length == 1.0 ? 0.0 : place * last / (length - 1.0);
  if (sampling.coordinates == "asymmetric")
    return place / axis.scale;
  if (sampling.coordinates == "tf_crop_and_resize") {
    double span = (axis.end - axis.begin) * last;
    double moved = length == 1.0 ? span / 2.0 : place * span / (length - 1.0);
    return moved + axis.begin * last;
  }
  if (sampling.coordinates == "pytorch_half_pixel" && length == 1.0)
    return -0.5;
  double offset = 0.0;
  if (sampling.coordinates == "half_pixel_symmetric")
    offset = static_cast<double>(axis.from) / 2.0 *
             (1.0 - static_cast<double>(axis.to) / length);
  return offset + (place + 0.5) / axis.scale - 0.5;
}

static double findNearest(StringRef mode, double x) {
  if (mode == "floor")
    return std::floor(x);
  if (mode == "ceil")
    return std::ceil(x);
  return mode == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5);
}

/// Returns the weight of a neighbor at `distance`.
static double weigh(const Sampling &sampling, double distance) {
  double x = std::fabs(distance), a = sampling.cubic;
  if (sampling.mode == "linear")
    return std::max(1.0 - x, 0.0);
  if (x <= 1.0)
    return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  return x < 2.0 ? ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a : 0.0;
}

/// Fails if the taps of all elements are too many to be constants.
static LogicalResult requireFewTaps(Node &node, const Sampling &sampling,
                                    const Resized &axis) {
  double shrink = sampling.antialias ? std::min(axis.scale, 1.0) : 1.0;
  double taps = (4.0 / shrink + 2.0) * static_cast<double>(axis.to);
  if (taps <= static_cast<double>(kMaxNumbers))
    return success();
  return node.emitUnsupported()
         << "resizes axis " << axis.axis << " of " << node.getType(0) << " to "
         << axis.to << " elements, which are too many";
}

static Taps findTaps(const Sampling &sampling, const Resized &axis) {
  bool isNearest = sampling.mode == "nearest";
  double reach = sampling.mode == "cubic" ? 2.0 : 1.0;
  // Antialiasing widens the filter by the downscaling factor.
  double shrink = sampling.antialias ? std::min(axis.scale, 1.0) : 1.0;
  auto first = static_cast<int64_t>(std::floor(-reach / shrink)) + 1;
  int64_t count = isNearest ? 1 : 2 - 2 * first;
  Taps taps;
  taps.places.resize(count);
  taps.weights.resize(count);
  for (int64_t i = 0; i < axis.to; ++i) {
    double x = findCoordinate(sampling, axis, i);
    // Limit coordinates: a region of interest may be far outside, or NaN.
    constexpr double kFar = 0x1p40;
    x = x > -kFar ? std::min(x, kFar) : -kFar;
    taps.isOutside.push_back(
        sampling.coordinates == "tf_crop_and_resize" &&
        (x < 0.0 || x > static_cast<double>(axis.from) - 1.0));
    // At an integer coordinate, the left neighbor is the one before it.
    double base =
        isNearest ? findNearest(sampling.nearest, x) : std::ceil(x) - 1.0;
    double sum = 0.0;
    for (int64_t tap = 0; tap < count; ++tap) {
      int64_t place =
          static_cast<int64_t>(base) + (isNearest ? 0 : first + tap);
      double weight =
          isNearest
              ? 1.0
              : weigh(sampling, shrink * (static_cast<double>(place) - x));
      if (sampling.excludesOutside && (place < 0 || place >= axis.from))
        weight = 0.0;
      sum += weight;
      taps.weights[tap].push_back(weight);
      taps.places[tap].push_back(std::clamp(place, int64_t(0), axis.from - 1));
    }
    for (std::vector<double> &weights : taps.weights)
      weights.back() = sum == 0.0 ? 0.0 : weights.back() / sum;
  }
  return taps;
}

/// Broadcasts the constant `numbers(line)`, a vector along `axis`, to `type`.
template <typename T>
static Value buildAlong(ImplicitLocOpBuilder &b, RankedTensorType type,
                        int64_t axis, T &&numbers) {
  auto line =
      RankedTensorType::get(type.getDimSize(axis), type.getElementType());
  return buildBroadcast(b, ConstantOp::create(b, numbers(line)), {axis},
                        type.getShape());
}

static Value resizeAxis(Node &node, Value x, const Sampling &sampling,
                        const Resized &axis) {
  ImplicitLocOpBuilder &b = node.b;
  Taps taps = findTaps(sampling, axis);
  Value sum;
  for (auto [places, weights] : llvm::zip_equal(taps.places, taps.weights)) {
    if (llvm::all_of(weights, [](double weight) { return weight == 0.0; }))
      continue;
    Value term = takeAlong(b, x, places, axis.axis);
    auto type = cast<RankedTensorType>(term.getType());
    if (sampling.mode != "nearest") {
      Value factor = buildAlong(b, type, axis.axis, [&](RankedTensorType line) {
        Elements elements{line, {}};
        for (double weight : weights)
          elements.numbers.push_back({.f = weight});
        return pack(elements);
      });
      term = MulOp::create(b, term, factor);
    }
    sum = sum ? Value(AddOp::create(b, sum, term)) : term;
  }
  auto type = cast<RankedTensorType>(x.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[axis.axis] = axis.to;
  type = type.clone(shape);
  if (!sum)
    sum = buildSplat(b, type, 0.0);
  if (llvm::none_of(taps.isOutside, [](bool is) { return is; }))
    return sum;
  Value isOutside = buildAlong(
      b, type.clone(b.getI1Type()), axis.axis, [&](RankedTensorType line) {
        return DenseElementsAttr::get(line, ArrayRef<bool>(taps.isOutside));
      });
  return SelectOp::create(b, isOutside,
                          buildSplat(b, type, sampling.extrapolation), sum);
}

/// Returns the elements of input `index`; nothing if it is missing or empty.
static FailureOr<SmallVector<double>> readNumbers(Node &node, unsigned index,
                                                  StringRef what) {
  SmallVector<double> numbers;
  if (!node.hasInput(index) || node.getType(index).getNumElements() == 0)
    return numbers;
  if (failed(node.requireConstant(index, what)) ||
      failed(node.checkCount(node.getType(index).getNumElements(), kMaxNumbers,
                             what)))
    return failure();
  Elements elements = unpack(node.getConstant(index));
  for (int64_t i = 0; i < elements.type.getNumElements(); ++i)
    numbers.push_back(node.hasFloats(index)
                          ? elements[i].f
                          : static_cast<double>(elements[i].i));
  return numbers;
}

/// Returns the resized axes, by the inputs and attributes.
static FailureOr<SmallVector<Resized>> readAxes(Node &node,
                                                const Sampling &sampling) {
  int64_t rank = node.getRank(0);
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<int64_t> axes = node.getInts("axes", all);
  StringRef policy = node.getString("keep_aspect_ratio_policy", "stretch");
  FailureOr<SmallVector<double>> roi = readNumbers(node, 1, "roi");
  FailureOr<SmallVector<double>> scales = readNumbers(node, 2, "scales");
  FailureOr<SmallVector<double>> sizes = readNumbers(node, 3, "sizes");
  if (failed(roi) || failed(scales) || failed(sizes))
    return failure();
  bool isCrop = sampling.coordinates == "tf_crop_and_resize";
  const SmallVector<double> &given = scales->empty() ? *sizes : *scales;
  if (scales->empty() == sizes->empty() || given.size() != axes.size() ||
      (isCrop && roi->size() != 2 * axes.size()) ||
      !isKnown(policy, {"stretch", "not_larger", "not_smaller"}))
    return node.emitUnsupported()
           << "expected either scales or sizes for each of " << axes.size()
           << " axes, two numbers of a roi "
           << "for a crop, and a known policy";
  SmallVector<Resized> result;
  for (auto [index, axis, number] : llvm::enumerate(axes, given)) {
    FailureOr<int64_t> normal = node.normalizeAxis(axis, rank);
    if (failed(normal))
      return failure();
    Resized resized{*normal, node.getShape(0)[*normal]};
    auto from = static_cast<double>(resized.from);
    if (isCrop) {
      resized.begin = (*roi)[index];
      resized.end = (*roi)[axes.size() + index];
    }
    resized.scale = scales->empty() ? number / from : number;
    double to =
        scales->empty()
            ? number
            : std::floor(from * resized.scale * (resized.end - resized.begin));
    if (!(resized.scale > 0.0) || !(to >= 0.0) || to > kMaxLength)
      return node.emitUnsupported()
             << "cannot resize axis " << *normal << " of " << node.getType(0)
             << " by " << number;
    resized.to = static_cast<int64_t>(to);
    result.push_back(resized);
  }
  if (scales->empty() && policy != "stretch") {
    auto byScale = [](const Resized &x, const Resized &y) {
      return x.scale < y.scale;
    };
    double scale = policy == "not_larger"
                       ? llvm::min_element(result, byScale)->scale
                       : llvm::max_element(result, byScale)->scale;
    for (Resized &axis : result) {
      axis.scale = scale;
      double to = std::floor(scale * static_cast<double>(axis.from) + 0.5);
      if (!(to <=
            kMaxLength)) // Also rejects NaN, from an axis without elements.
        return node.emitUnsupported()
               << "cannot resize axis " << axis.axis << " of "
               << node.getType(0) << " by " << scale;
      axis.to = static_cast<int64_t>(to);
    }
  }
  return result;
}

/// Returns `type` with all axes resized.
static RankedTensorType getResized(RankedTensorType type,
                                   ArrayRef<Resized> axes) {
  SmallVector<int64_t> shape(type.getShape());
  for (const Resized &axis : axes)
    shape[axis.axis] = axis.to;
  return type.clone(shape);
}

/// Sets the result to input 0 with `axes` resized one by one.
static LogicalResult resizeAxes(Node &node, const Sampling &sampling,
                                ArrayRef<Resized> axes) {
  ImplicitLocOpBuilder &b = node.b;
  if (sampling.mode != "nearest" && failed(requireFloats(node)))
    return failure();
  RankedTensorType wanted = getResized(node.getType(0), axes);
  if (hasNoElements(wanted))
    return node.setResult(buildSplat(b, wanted, 0.0));
  Value x = node.getInput(0);
  bool isNarrow = sampling.mode != "nearest" &&
                  node.getElement(0).getIntOrFloatBitWidth() < 32;
  if (isNarrow) // Round once, at the end.
    x = buildCast(b, x, b.getF32Type());
  SmallVector<int64_t> shape(node.getShape(0));
  for (const Resized &axis : axes) {
    shape[axis.axis] = axis.to;
    if (failed(getTensorType(node.getErrorLoc(), shape, node.getElement(0))))
      return failure();
    bool isWhole = axis.begin == 0.0 && axis.end == 1.0;
    if (axis.to == axis.from && axis.scale == 1.0 && isWhole)
      continue;
    if (axis.from == 0)
      return node.emitUnsupported() << "cannot resize " << node.getType(0);
    if (failed(requireFewTaps(node, sampling, axis)))
      return failure();
    x = resizeAxis(node, x, sampling, axis);
  }
  return node.setResult(buildCast(b, x, node.getElement(0)));
}

LogicalResult mlir::binade::importer::importResize(Node &node) {
  if (node.getOpset() < 11)
    return importUpsample(node);
  FailureOr<Sampling> sampling = readSampling(node);
  if (failed(sampling))
    return failure();
  FailureOr<SmallVector<Resized>> axes = readAxes(node, *sampling);
  return failed(axes) ? failure() : resizeAxes(node, *sampling, *axes);
}

/// Imports Upsample, and Resize of opset 10: scales all axes, aligned at the
/// first element.
LogicalResult mlir::binade::importer::importUpsample(Node &node) {
  int64_t rank = node.getRank(0);
  Sampling sampling{node.getString("mode", "nearest"),
                    "floor",
                    "asymmetric",
                    /*antialias=*/false,
                    /*excludesOutside=*/false,
                    -0.75,
                    0.0};
  if (!isKnown(sampling.mode, {"nearest", "linear"}))
    return node.emitUnsupported()
           << "does not know mode " << quote(sampling.mode);
  FailureOr<SmallVector<double>> scales = readNumbers(node, 1, "scales");
  if (failed(scales))
    return failure();
  if (scales->empty())
    *scales = node.getFloats("scales");
  if (static_cast<int64_t>(scales->size()) != rank)
    return node.emitUnsupported()
           << "expected a scale for each axis of " << node.getType(0)
           << ", got " << scales->size();
  SmallVector<Resized> axes;
  for (auto [axis, scale] : llvm::enumerate(*scales)) {
    Resized resized{static_cast<int64_t>(axis), node.getShape(0)[axis]};
    resized.scale = scale;
    double to = std::floor(static_cast<double>(resized.from) * scale);
    if (!(scale > 0.0) || !(to <= kMaxLength))
      return node.emitUnsupported() << "cannot resize axis " << axis << " of "
                                    << node.getType(0) << " by " << scale;
    resized.to = static_cast<int64_t>(to);
    axes.push_back(resized);
  }
  return resizeAxes(node, sampling, axes);
}
