//===- Blocks.cpp - Import of Col2Im --------------------------------------===//

#include "../OpTable.h"
#include "Window.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Slices the last axes of `x` to `sizes`, starting at `low`.
static Value crop(ImplicitLocOpBuilder &b, Value x, ArrayRef<int64_t> low,
                  ArrayRef<int64_t> sizes) {
  int64_t first = cast<RankedTensorType>(x.getType()).getRank() - sizes.size();
  for (auto [axis, begin, size] : llvm::enumerate(low, sizes))
    x = buildSlice(b, x, first + axis, begin, size);
  return x;
}

/// Builds the image whose blocks are given; overlapping blocks are added. All
/// elements at one position of the blocks form a strided slice of the image, so
/// one padded tensor is added per position.
LogicalResult mlir::binade::importer::importCol2Im(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  FailureOr<SmallVector<int64_t>> image = node.getIntegers(1, "image_shape");
  FailureOr<SmallVector<int64_t>> kernel = node.getIntegers(2, "block_shape");
  if (failed(image) || failed(kernel) || failed(requireFloats(node)))
    return failure();
  size_t rank = image->size();
  FailureOr<Window> window = readGeometry(node, *kernel, rank);
  if (failed(window))
    return failure();
  int64_t blocks = 1, places = 1;
  SmallVector<int64_t> counts, padded;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t size = (*image)[axis];
    padded.push_back(size + window->low[axis] + window->high[axis]);
    int64_t room = padded.back() - window->getExtent(axis);
    counts.push_back(room < 0 || size < 1 ? 0
                                          : room / window->strides[axis] + 1);
    blocks *= counts.back();
    places *= window->kernel[axis];
  }
  constexpr int64_t kMaxPlaces = 256;
  if (type.getRank() != 3 || blocks < 1 || places > kMaxPlaces ||
      type.getDimSize(1) % places != 0 || type.getDimSize(2) != blocks)
    return node.emitUnsupported()
           << "cannot join " << type << " to images of [" << *image
           << "] from blocks of [" << *kernel << "], at most " << kMaxPlaces
           << " elements each";
  int64_t batch = type.getDimSize(0), channels = type.getDimSize(1) / places;
  SmallVector<int64_t> split = {batch, channels, places};
  SmallVector<int64_t> part = {batch, channels}, whole = {batch, channels};
  llvm::append_range(split, counts);
  llvm::append_range(part, counts);
  llvm::append_range(whole, padded);
  if (failed(getTensorType(node.getErrorLoc(), whole, type.getElementType())))
    return failure();
  bool isNarrow = type.getElementTypeBitWidth() < 32; // Round once, at the end.
  Type compute = isNarrow ? Type(b.getF32Type()) : type.getElementType();
  Value x = buildReshape(b, buildCast(b, node.getInput(0), compute), split);
  SmallVector<int64_t> strides = {1, 1};
  llvm::append_range(strides, window->strides);
  Value sum;
  for (int64_t place = 0; place < places; ++place) {
    SmallVector<int64_t> offsets(rank + 2, 0);
    int64_t rest = place;
    for (size_t axis = rank; axis-- > 0; rest /= window->kernel[axis])
      offsets[axis + 2] = rest % window->kernel[axis] * window->dilations[axis];
    Value box = buildReshape(b, buildSlice(b, x, 2, place, 1), part);
    Value spread = PadOp::create(b, RankedTensorType::get(whole, compute), box,
                                 offsets, strides);
    sum = sum ? Value(AddOp::create(b, sum, spread)) : spread;
  }
  return node.setResult(
      buildCast(b, crop(b, sum, window->low, *image), type.getElementType()));
}
