//===- Convolution.cpp - Convolutions and pooling -------------------------===//

#include "OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
/// Where a window lies, per spatial axis.
struct Window {
  SmallVector<int64_t> kernel, strides, dilations, low, high, output;

  int64_t getExtent(size_t axis) const {
    return (kernel[axis] - 1) * dilations[axis] + 1;
  }
};
} // namespace

/// Reads what Conv and the pools share; input 0 is [N, C, spatial...].
static FailureOr<Window> readWindow(Node &node, ArrayRef<int64_t> kernel) {
  ArrayRef<int64_t> sizes = node.getShape(0).drop_front(2);
  size_t rank = sizes.size();
  SmallVector<int64_t> ones(rank, 1), zeros(2 * rank, 0);
  Window window;
  window.kernel = node.getInts("kernel_shape", kernel);
  window.strides = node.getInts("strides", ones);
  window.dilations = node.getInts("dilations", ones);
  SmallVector<int64_t> pads = node.getInts("pads", zeros);
  StringRef automatic = node.getString("auto_pad", "NOTSET");
  if (window.kernel.size() != rank || window.strides.size() != rank ||
      window.dilations.size() != rank || pads.size() != 2 * rank)
    return node.emitError()
           << "expected kernel_shape, strides and dilations of " << rank
           << " and pads of " << 2 * rank << " numbers for " << node.getType(0);
  auto isBelow = [](int64_t bound) {
    return [bound](int64_t number) {
      return number < bound || number > (int64_t(1) << 31);
    };
  };
  if (llvm::any_of(window.kernel, isBelow(1)) ||
      llvm::any_of(window.strides, isBelow(1)) ||
      llvm::any_of(window.dilations, isBelow(1)) ||
      llvm::any_of(pads, isBelow(0)))
    return node.emitError() << "kernel_shape, strides and dilations have to be "
                               "positive, pads not negative";
  if (automatic != "NOTSET" && automatic != "VALID" &&
      automatic != "SAME_UPPER" && automatic != "SAME_LOWER")
    return node.emitError() << "does not know auto_pad " << quote(automatic);
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t low = pads[axis], high = pads[axis + rank];
    if (automatic == "VALID")
      low = high = 0;
    if (automatic.starts_with("SAME")) {
      int64_t steps = llvm::divideCeil(sizes[axis], window.strides[axis]);
      int64_t total =
          std::max<int64_t>(0, (steps - 1) * window.strides[axis] +
                                   window.getExtent(axis) - sizes[axis]);
      low = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
    }
    int64_t room = sizes[axis] + low + high - window.getExtent(axis);
    if (room < 0)
      return node.emitError()
             << "has a window of " << window.getExtent(axis)
             << " elements along axis " << axis + 2 << ", which has "
             << sizes[axis] + low + high << " with padding";
    window.low.push_back(low);
    window.high.push_back(high);
    window.output.push_back(room / window.strides[axis] + 1);
  }
  return window;
}

LogicalResult mlir::binade::importer::importConv(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t groups = node.getInt("group", 1), rank = node.getRank(0);
  RankedTensorType x = node.getType(0), weight = node.getType(1);
  if (rank < 3 || rank > 5 || weight.getRank() != rank || !node.hasFloats(0) ||
      weight.getElementType() != x.getElementType() || groups < 1 ||
      x.getDimSize(1) != weight.getDimSize(1) * groups ||
      weight.getDimSize(0) % groups != 0)
    return node.emitError() << "cannot convolve " << x << " with " << weight
                            << " in " << groups << " groups";
  ArrayRef<int64_t> kernel = weight.getShape().drop_front(2);
  FailureOr<Window> window = readWindow(node, kernel);
  if (failed(window))
    return failure();
  if (ArrayRef(window->kernel) != kernel)
    return node.emitError() << "kernel_shape is [" << window->kernel
                            << "], the weight's is [" << kernel << "]";
  Value bias = node.getInput(2);
  if (bias &&
      (node.getRank(2) != 1 || node.getShape(2)[0] != weight.getDimSize(0) ||
       node.getElement(2) != x.getElementType()))
    return node.emitError() << "expected a bias of " << weight.getDimSize(0)
                            << " elements, got " << node.getType(2);
  SmallVector<int64_t> shape = {x.getDimSize(0), weight.getDimSize(0)};
  llvm::append_range(shape, window->output);
  return node.setResult(ConvOp::create(
      b, x.clone(shape), node.getInput(0), node.getInput(1), bias,
      window->strides, window->low, window->high, window->dilations, groups,
      /*channels_last=*/false, PrecisionAttr()));
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

/// `x` with `window`'s padding, filled with `value`.
static Value padSpatial(ImplicitLocOpBuilder &b, Value x, const Window &window,
                        double value) {
  for (auto [index, low, high] : llvm::enumerate(window.low, window.high)) {
    auto type = cast<RankedTensorType>(x.getType());
    auto fill = [&](int64_t size) {
      SmallVector<int64_t> shape(type.getShape());
      shape[index + 2] = size;
      return buildSplat(b, type.clone(shape), value);
    };
    SmallVector<Value> parts;
    if (low > 0)
      parts.push_back(fill(low));
    parts.push_back(x);
    if (high > 0)
      parts.push_back(fill(high));
    if (parts.size() == 1)
      continue;
    SmallVector<int64_t> shape(type.getShape());
    shape[index + 2] += low + high;
    x = ConcatOp::create(b, type.clone(shape), parts, index + 2,
                         PrecisionAttr());
  }
  return x;
}

/// Combines the elements of each window, first to last: one strided slice per
/// place in the window. Equal maxima are resolved for the first place so.
template <typename Op>
static Value combineWindow(ImplicitLocOpBuilder &b, Value padded,
                           const Window &window) {
  auto type = cast<RankedTensorType>(padded.getType());
  SmallVector<int64_t> shape(type.getShape().take_front(2));
  llvm::append_range(shape, window.output);
  SmallVector<int64_t> strides = {1, 1};
  for (auto [stride, size] : llvm::zip(window.strides, window.output))
    strides.push_back(size > 1 ? stride : 1);
  Value result;
  int64_t places = ShapedType::getNumElements(window.kernel);
  for (int64_t place = 0; place < places; ++place) {
    SmallVector<int64_t> offsets(shape.size(), 0);
    int64_t rest = place;
    for (size_t axis = window.kernel.size(); axis-- > 0;) {
      offsets[axis + 2] = rest % window.kernel[axis] * window.dilations[axis];
      rest /= window.kernel[axis];
    }
    Value slice =
        SliceOp::create(b, type.clone(shape), padded, offsets, strides);
    result = result ? Value(Op::create(b, result, slice)) : slice;
  }
  return result;
}

static FailureOr<Window> readPool(Node &node) {
  if (node.getRank(0) < 3 || !node.hasFloats(0))
    return node.emitError()
           << "expected [N, C, spatial...] of floats, got " << node.getType(0);
  FailureOr<Window> window = readWindow(node, {});
  if (failed(window))
    return failure();
  // More places than this are better served by an op of their own.
  if (ShapedType::getNumElements(window->kernel) > 64)
    return node.emitError() << "windows of more than 64 elements are not "
                               "supported, got ["
                            << window->kernel << "]";
  if (node.getInt("ceil_mode", 0))
    for (auto [axis, size] : llvm::enumerate(node.getShape(0).drop_front(2))) {
      int64_t room = size + window->low[axis] + window->high[axis] -
                     window->getExtent(axis);
      if (room % window->strides[axis] != 0)
        return node.emitError() << "ceil_mode with a partial window along axis "
                                << axis + 2 << " is not supported";
    }
  return window;
}

LogicalResult mlir::binade::importer::importMaxPool(Node &node) {
  if (failed(node.refuseOutputs(1, "indices of maxima are not supported")))
    return failure();
  (void)node.getInt("storage_order", 0); // Of the indices.
  FailureOr<Window> window = readPool(node);
  if (failed(window))
    return failure();
  Value padded = padSpatial(node.b, node.getInput(0), *window, -INFINITY);
  return node.setResult(combineWindow<MaxOp>(node.b, padded, *window));
}

LogicalResult mlir::binade::importer::importAveragePool(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  bool countsPadding = node.getInt("count_include_pad", 0);
  FailureOr<Window> window = readPool(node);
  if (failed(window))
    return failure();
  Value padded = padSpatial(b, node.getInput(0), *window, 0.0);
  Value sum = combineWindow<AddOp>(b, padded, *window);
  auto type = cast<RankedTensorType>(sum.getType());
  // How many elements each window averages: a product over the axes.
  auto spatial = llvm::to_vector(window->output);
  std::vector<float> counts(ShapedType::getNumElements(spatial), 1.0f);
  int64_t inner = counts.size();
  for (auto [axis, size] : llvm::enumerate(node.getShape(0).drop_front(2))) {
    int64_t places = spatial[axis];
    inner /= places;
    for (auto [i, count] : llvm::enumerate(counts)) {
      int64_t begin =
          static_cast<int64_t>(i) / inner % places * window->strides[axis] -
          window->low[axis];
      int64_t inside = 0;
      for (int64_t k = 0; k < window->kernel[axis]; ++k) {
        int64_t place = begin + k * window->dilations[axis];
        inside += countsPadding || (place >= 0 && place < size);
      }
      count *= static_cast<float>(inside);
    }
  }
  auto countType = RankedTensorType::get(spatial, b.getF32Type());
  Value count =
      buildCast(b,
                ConstantOp::create(
                    b, DenseElementsAttr::get(countType, ArrayRef(counts))),
                type.getElementType());
  if (llvm::all_equal(counts))
    count = buildSplat(b, type, counts.front());
  return node.setResult(
      DivOp::create(b, sum, broadcastTo(b, count, type.getShape())));
}

LogicalResult mlir::binade::importer::importGlobalAveragePool(Node &node) {
  int64_t rank = node.getRank(0);
  if (rank < 3 || !node.hasFloats(0))
    return node.emitError()
           << "expected [N, C, spatial...] of floats, got " << node.getType(0);
  auto axes = llvm::to_vector(llvm::seq<int64_t>(2, rank));
  SmallVector<int64_t> shape(node.getShape(0).take_front(2));
  shape.append(rank - 2, 1);
  Value mean = ReduceMeanOp::create(node.b, node.getInput(0), axes);
  return node.setResult(buildReshape(node.b, mean, shape));
}
