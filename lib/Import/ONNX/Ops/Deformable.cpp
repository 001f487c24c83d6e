//===- Deformable.cpp - Import of DeformConv ------------------------------===//
//
// Interpolates the image at the kernel positions of each window, moved by the
// offsets, and multiplies these samples by the weight in one matmul.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Arithmetic.h"
#include "Indexing.h"
#include "Taps.h"
#include "Window.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
class DeformableConvolution {
public:
  explicit DeformableConvolution(Node &node) : node(node), b(node.b) {}
  LogicalResult buildConvolution();

private:
  LogicalResult readConvolution();
  Value getCoordinate(int64_t axis, Value offsets) const;
  Value buildColumns();

  Node &node;
  ImplicitLocOpBuilder &b;
  Window window;
  int64_t groups = 1, offsetGroups = 1;
  int64_t batch = 0, channels = 0, rank = 0;
  /// Elements per kernel, and the number of windows.
  int64_t places = 1, outputs = 1;
  Type compute; ///< The type of coordinates.
};
} // namespace

enum : unsigned { kImage, kWeight, kOffset, kBias, kDeformMask };

LogicalResult DeformableConvolution::readConvolution() {
  groups = node.getInt("group", 1);
  offsetGroups = node.getInt("offset_group", 1);
  if (failed(requireFloats(node)))
    return failure();
  Type element = node.getElement(kImage);
  FailureOr<Window> read =
      importer::readConvolution(node, kImage, kWeight, groups);
  if (failed(read))
    return failure();
  window = *read;
  ArrayRef<int64_t> shape = node.getShape(kImage);
  batch = shape[0], channels = shape[1];
  rank = static_cast<int64_t>(shape.size()) - 2;
  constexpr int64_t kMaxPlaces = 256;
  for (int64_t size : window.kernel)
    places = std::min(places * size, kMaxPlaces + 1);
  outputs = ShapedType::getNumElements(window.output);
  if (offsetGroups < 1 || channels % offsetGroups != 0 || places > kMaxPlaces ||
      ShapedType::getNumElements(shape) == 0)
    return node.emitUnsupported()
           << "cannot deform kernels [" << ArrayRef(window.kernel) << "] on "
           << node.getType(kImage) << " in " << offsetGroups
           << " offset groups; kernels of at most " << kMaxPlaces
           << " elements are supported";
  auto require = [&](unsigned input, StringRef what,
                     ArrayRef<int64_t> expected) -> LogicalResult {
    auto type = RankedTensorType::get(expected, element);
    if (!node.hasInput(input) || node.getType(input) == type)
      return success();
    return node.emitError() << "expected " << what << " of type " << type
                            << ", got " << node.getType(input);
  };
  int64_t moved = offsetGroups * places;
  SmallVector<int64_t> offset = {batch, moved * rank}, mask = {batch, moved};
  llvm::append_range(offset, window.output);
  llvm::append_range(mask, window.output);
  bool isWide = element.isF64();
  compute = isWide ? Type(b.getF64Type()) : Type(b.getF32Type());
  return success(
      succeeded(require(kWeight, "a weight", node.getShape(kWeight))) &&
      succeeded(require(kOffset, "offsets", offset)) &&
      succeeded(require(kBias, "a bias", node.getShape(kWeight).front())) &&
      succeeded(require(kDeformMask, "a mask", mask)));
}

/// Returns the coordinates of samples along spatial axis `axis`: [batch, offset
/// groups, places, outputs].
Value DeformableConvolution::getCoordinate(int64_t axis, Value offsets) const {
  SmallVector<int64_t> shape = {batch, offsetGroups, places, outputs};
  SmallVector<int64_t> still(window.kernel);
  llvm::append_range(still, window.output);
  auto type = RankedTensorType::get(still, b.getI64Type());
  Value inside = times(b, buildPlaces(b, type, axis), window.dilations[axis]),
        begin =
            times(b, buildPlaces(b, type, rank + axis), window.strides[axis]);
  Value place = buildCast(b, AddOp::create(b, inside, begin), compute);
  Arithmetic a(b, place);
  place = a.add(place, -static_cast<double>(window.low[axis]));
  place = buildReshape(b, place, {places, outputs});
  Value offset = buildReshape(b, buildSlice(b, offsets, 3, axis, 1), shape);
  return AddOp::create(b, buildBroadcast(b, place, {2, 3}, shape), offset);
}

/// Builds the samples, [batch * outputs, groups, channels / groups * places].
Value DeformableConvolution::buildColumns() {
  SmallVector<int64_t> spatial(node.getShape(kImage).drop_front(2));
  SmallVector<int64_t> strides = computeStrides(spatial);
  int64_t pixels = ShapedType::getNumElements(spatial);
  int64_t depth = channels / offsetGroups;
  // One row per pixel, of the channels of an offset group.
  Value rows = buildReshape(b, buildCast(b, node.getInput(kImage), compute),
                            {batch * offsetGroups, depth, pixels});
  rows = buildReshape(b, buildTranspose(b, rows, {0, 2, 1}),
                      {batch * offsetGroups * pixels, depth});
  Value offsets = buildReshape(b, buildCast(b, node.getInput(kOffset), compute),
                               {batch, offsetGroups, places, rank, outputs});
  SmallVector<int64_t> shape = {batch, offsetGroups, places, outputs};
  auto type = RankedTensorType::get(shape, b.getI64Type());
  Value image =
      AddOp::create(b, times(b, buildPlaces(b, type, 0), offsetGroups * pixels),
                    times(b, buildPlaces(b, type, 1), pixels));
  Value mask = node.getInput(kDeformMask);
  if (mask)
    mask = buildReshape(b, buildCast(b, mask, compute), shape);
  SmallVector<Tap> taps = {{image, mask}};
  for (auto [axis, length] : llvm::enumerate(spatial))
    taps = combineTaps(b, taps,
                       findLinearTaps(b, getCoordinate(axis, offsets), length,
                                      /*isZeroOutside=*/true),
                       strides[axis]);
  Value samples = buildTranspose(b, addTaps(b, rows, taps), {0, 3, 1, 4, 2});
  samples = buildReshape(b, samples,
                         {batch * outputs, groups, channels / groups * places});
  return buildCast(b, samples, node.getElement(kImage));
}

LogicalResult DeformableConvolution::buildConvolution() {
  if (failed(readConvolution()))
    return failure();
  int64_t features = node.getShape(kWeight).front();
  Value columns = buildTranspose(b, buildColumns(), {1, 0, 2});
  Value weight =
      buildReshape(b, node.getInput(kWeight),
                   {groups, features / groups, channels / groups * places});
  FailureOr<Value> product =
      buildProduct(node, columns, buildTranspose(b, weight, {0, 2, 1}));
  if (failed(product))
    return failure();
  Value y =
      buildReshape(b, *product, {groups, batch, outputs, features / groups});
  SmallVector<int64_t> shape = {batch, features};
  llvm::append_range(shape, window.output);
  y = buildReshape(b, buildTranspose(b, y, {1, 0, 3, 2}), shape);
  if (Value bias = node.getInput(kBias))
    y = AddOp::create(b, y, buildBroadcast(b, bias, {1}, shape));
  return node.setResult(y);
}

LogicalResult mlir::binade::importer::importDeformConv(Node &node) {
  return DeformableConvolution(node).buildConvolution();
}
