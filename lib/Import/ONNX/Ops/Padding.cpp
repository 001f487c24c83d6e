//===- Padding.cpp - Import of Pad and space-to-depth ops -----------------===//

#include "../OpTable.h"
#include "Indexing.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Returns the position, within an axis of `length`, of the element that
/// padding by `mode` copies to `place`, which may be outside the axis.
static int64_t findPlace(StringRef mode, int64_t place, int64_t length) {
  if (mode == "edge")
    return std::clamp(place, int64_t(0), length - 1);
  auto modulo = [](int64_t x, int64_t n) { return (x % n + n) % n; };
  if (mode == "wrap")
    return modulo(place, length);
  // Reflect: back and forth, without repeating the ends.
  int64_t period = std::max<int64_t>(2 * (length - 1), 1);
  place = modulo(place, period);
  return place < length ? place : period - place;
}

/// Pads `x` along `axis` with `low` and `high` elements of the scalar `fill`.
static Value padWith(ImplicitLocOpBuilder &b, Value x, int64_t axis,
                     int64_t low, int64_t high, Value fill) {
  auto type = cast<RankedTensorType>(x.getType());
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<Value> parts;
  auto add = [&](int64_t length) {
    SmallVector<int64_t> part(type.getShape());
    part[axis] = length;
    if (length > 0)
      parts.push_back(broadcastTo(b, fill, part));
  };
  add(low);
  parts.push_back(x);
  add(high);
  shape[axis] += low + high;
  if (parts.size() == 1)
    return x;
  return ConcatOp::create(b, type.clone(shape), parts, axis, PrecisionAttr());
}

LogicalResult mlir::binade::importer::importPad(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  StringRef mode = node.getString("mode", "constant");
  FailureOr<SmallVector<int64_t>> pads = node.getGivenIntegers(1, "pads");
  FailureOr<SmallVector<int64_t>> axes =
      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  if (node.hasInput(3))
    axes = node.getIntegers(3, "axes");
  if (failed(pads) || failed(axes))
    return failure();
  if (mode != "constant" && mode != "reflect" && mode != "edge" &&
      mode != "wrap")
    return node.emitError() << "does not know mode " << quote(mode);
  size_t count = axes->size();
  if (pads->size() != 2 * count)
    return node.emitError() << "expected two pads for each of " << count
                            << " axes, got " << pads->size();
  Value fill;
  if (mode == "constant" && node.hasInput(2)) {
    if (node.getType(2).getNumElements() != 1 ||
        node.getElement(2) != type.getElementType())
      return node.emitError() << "expected one " << type.getElementType()
                              << ", got " << node.getType(2);
    fill = buildReshape(b, node.getInput(2), {});
  } else if (mode == "constant") {
    fill = buildSplat(b, type.clone(ArrayRef<int64_t>()),
                      // An attribute of old opsets.
                      node.getFloat("value", 0.0));
  }
  Value x = node.getInput(0);
  SmallVector<int64_t> shape(type.getShape());
  for (auto [index, given] : llvm::enumerate(*axes)) {
    FailureOr<int64_t> axis = node.normalizeAxis(given, type.getRank());
    if (failed(axis))
      return failure();
    int64_t low = (*pads)[index], high = (*pads)[count + index];
    if (low == 0 && high == 0)
      continue;
    int64_t length = shape[*axis];
    constexpr int64_t kMax = int64_t(1) << 40;
    bool isSmall = std::abs(low) < kMax && std::abs(high) < kMax;
    shape[*axis] = isSmall ? length + low + high : -1;
    if (shape[*axis] < 0 || (mode != "constant" && length == 0))
      return node.emitUnsupported() << "cannot pad axis " << *axis << " of "
                                    << type << " by " << low << " and " << high;
    if (failed(getTensorType(node.getErrorLoc(), shape, type.getElementType())))
      return failure();
    if (mode == "constant") {
      // Negative padding crops.
      int64_t begin = std::max<int64_t>(-low, 0);
      int64_t end = length - std::max<int64_t>(-high, 0);
      x = buildSlice(b, x, *axis, begin, std::max<int64_t>(end - begin, 0));
      x = padWith(b, x, *axis, std::max<int64_t>(low, 0),
                  std::max<int64_t>(high, 0), fill);
      continue;
    }
    if (failed(node.checkCount(shape[*axis], kMaxNumbers, "places")))
      return failure();
    SmallVector<int64_t> places;
    for (int64_t place = -low; place < length + high; ++place)
      places.push_back(findPlace(mode, place, length));
    x = takeAlong(b, x, places, *axis);
  }
  return node.setResult(x);
}

/// Crops each axis to its center, or pads it with zeros on both sides.
LogicalResult mlir::binade::importer::importCenterCropPad(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  FailureOr<SmallVector<int64_t>> sizes = node.getIntegers(1, "shape");
  SmallVector<int64_t> axes = node.getInts(
      "axes", llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
  if (failed(sizes))
    return failure();
  if (sizes->size() != axes.size())
    return node.emitUnsupported()
           << "expected a size for each of " << axes.size() << " axes, got ["
           << *sizes << "]";
  Value x = node.getInput(0);
  Value zero = buildSplat(b, type.clone(ArrayRef<int64_t>()), 0.0);
  SmallVector<int64_t> shape(type.getShape());
  for (auto [given, size] : llvm::zip_equal(axes, *sizes)) {
    FailureOr<int64_t> axis = node.normalizeAxis(given, type.getRank());
    if (failed(axis))
      return failure();
    int64_t length = shape[*axis];
    shape[*axis] = size;
    if (failed(getTensorType(node.getErrorLoc(), shape, type.getElementType())))
      return failure();
    if (size <= length) {
      x = buildSlice(b, x, *axis, (length - size) / 2, size);
    } else {
      int64_t low = (size - length) / 2;
      x = padWith(b, x, *axis, low, size - length - low, zero);
    }
  }
  return node.setResult(x);
}

//===----------------------------------------------------------------------===//
// Blocks of an image to channels and back
//===----------------------------------------------------------------------===//

static LogicalResult requireImage(Node &node, int64_t block) {
  constexpr int64_t kMax = int64_t(1) << 16;
  if (node.getRank(0) == 4 && block >= 1 && block <= kMax)
    return success();
  return node.emitError() << "expected [N, C, H, W] and a positive blocksize, "
                          << "got " << node.getType(0) << " and " << block;
}

LogicalResult mlir::binade::importer::importDepthToSpace(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t s = node.getInt("blocksize", 0);
  StringRef mode = node.getString("mode", "DCR");
  if (failed(requireImage(node, s)))
    return failure();
  ArrayRef<int64_t> shape = node.getShape(0);
  if ((mode != "DCR" && mode != "CRD") || shape[1] % (s * s) != 0)
    return node.emitError()
           << "cannot rearrange " << node.getType(0) << " by blocks of " << s
           << " in mode " << quote(mode);
  int64_t n = shape[0], c = shape[1] / (s * s), h = shape[2], w = shape[3];
  bool isDepthFirst = mode == "DCR";
  Value x = buildReshape(b, node.getInput(0),
                         isDepthFirst ? ArrayRef<int64_t>{n, s, s, c, h, w}
                                      : ArrayRef<int64_t>{n, c, s, s, h, w});
  x = buildTranspose(b, x,
                     isDepthFirst ? ArrayRef<int64_t>{0, 3, 4, 1, 5, 2}
                                  : ArrayRef<int64_t>{0, 1, 4, 2, 5, 3});
  return node.setResult(buildReshape(b, x, {n, c, h * s, w * s}));
}

LogicalResult mlir::binade::importer::importSpaceToDepth(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t s = node.getInt("blocksize", 0);
  StringRef mode = node.getString("mode", "DCR");
  if (failed(requireImage(node, s)))
    return failure();
  ArrayRef<int64_t> shape = node.getShape(0);
  if ((mode != "DCR" && mode != "CRD") || shape[2] % s != 0 ||
      shape[3] % s != 0)
    return node.emitError()
           << "cannot rearrange " << node.getType(0) << " by blocks of " << s
           << " in mode " << quote(mode);
  int64_t n = shape[0], c = shape[1], h = shape[2] / s, w = shape[3] / s;
  Value x = buildReshape(b, node.getInput(0), {n, c, h, s, w, s});
  x = buildTranspose(b, x,
                     mode == "DCR" ? ArrayRef<int64_t>{0, 3, 5, 1, 2, 4}
                                   : ArrayRef<int64_t>{0, 1, 3, 5, 2, 4});
  return node.setResult(buildReshape(b, x, {n, c * s * s, h, w}));
}
