//===- Pooling.cpp - Import of pooling ------------------------------------===//

#include "../OpTable.h"
#include "Indexing.h"
#include "Window.h"
#include "binade/IR/Subgradient.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Pads the spatial axes of `x` for `window` with `value`.
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

/// Calls `visit` for each position in the window, with the elements of all
/// windows at this position (a strided slice of `padded`) and its offsets in
/// the window.
static void forEachPlace(ImplicitLocOpBuilder &b, Value padded,
                         const Window &window,
                         function_ref<void(Value, ArrayRef<int64_t>)> visit) {
  auto type = cast<RankedTensorType>(padded.getType());
  SmallVector<int64_t> shape(type.getShape().take_front(2));
  llvm::append_range(shape, window.output);
  SmallVector<int64_t> strides = {1, 1};
  for (auto [stride, size] : llvm::zip(window.strides, window.output))
    strides.push_back(size > 1 ? stride : 1);
  int64_t places = ShapedType::getNumElements(window.kernel);
  for (int64_t place = 0; place < places; ++place) {
    SmallVector<int64_t> offsets(shape.size(), 0);
    int64_t rest = place;
    for (size_t axis = window.kernel.size(); axis-- > 0;) {
      offsets[axis + 2] = rest % window.kernel[axis] * window.dilations[axis];
      rest /= window.kernel[axis];
    }
    visit(SliceOp::create(b, type.clone(shape), padded, offsets, strides),
          ArrayRef(offsets).drop_front(2));
  }
}

/// Combines the elements of each window, first to last. The first of equal
/// maxima gets the gradient.
template <typename Op>
static Value combineWindow(ImplicitLocOpBuilder &b, Value padded,
                           const Window &window) {
  Value result;
  forEachPlace(b, padded, window, [&](Value slice, ArrayRef<int64_t>) {
    if (!result) {
      result = slice;
      return;
    }
    result = Op::create(b, result, slice);
    if (std::is_same_v<Op, MaxOp>)
      setTies(result, Ties::First);
  });
  return result;
}

/// Builds the row-major index in input 0 of each window's maximum; if
/// `isColumnMajor`, the index counts along the spatial axes in reverse order.
static Value numberMaxima(Node &node, Value padded, const Window &window,
                          bool isColumnMajor) {
  ImplicitLocOpBuilder &b = node.b;
  ArrayRef<int64_t> from = node.getShape(0);
  size_t rank = window.kernel.size();
  SmallVector<int64_t> strides(rank, 1);
  for (size_t i = 1; i < rank; ++i) {
    size_t axis = isColumnMajor ? i : rank - 1 - i;
    size_t inner = isColumnMajor ? i - 1 : rank - i;
    strides[axis] = strides[inner] * from[inner + 2];
  }
  int64_t image = ShapedType::getNumElements(from.drop_front(2));
  Value best, number, first;
  forEachPlace(b, padded, window, [&](Value slice, ArrayRef<int64_t> offsets) {
    auto type = cast<RankedTensorType>(slice.getType());
    auto scaled = [&](int64_t axis, int64_t factor) {
      return times(b, buildPlaces(b, type, axis), factor);
    };
    if (!first) {
      // The indices of the first elements of windows.
      first = AddOp::create(b, scaled(0, from[1] * image), scaled(1, image));
      for (size_t axis = 0; axis < rank; ++axis)
        first = AddOp::create(
            b, first, scaled(axis + 2, window.strides[axis] * strides[axis]));
    }
    int64_t distance = 0;
    for (auto [offset, low, stride] : llvm::zip(offsets, window.low, strides))
      distance += (offset - low) * stride;
    Value own = AddOp::create(
        b, first,
        buildSplat(b, first.getType(), static_cast<double>(distance)));
    if (!best) {
      best = slice, number = own;
      return;
    }
    Value isLarger = CompareOp::create(b, slice, best, Comparison::Greater);
    best = MaxOp::create(b, best, slice);
    number = SelectOp::create(b, isLarger, own, number);
  });
  return number;
}

/// With ceil_mode, adds windows that extend beyond the padded input, if they
/// begin within the input or its padding before it.
static void addPartialWindows(Window &window, ArrayRef<int64_t> sizes) {
  for (auto [axis, size] : llvm::enumerate(sizes)) {
    int64_t stride = window.strides[axis];
    int64_t padded = size + window.low[axis] + window.high[axis];
    int64_t room = padded - window.getExtent(axis);
    int64_t last = llvm::divideCeilSigned(room, stride);
    if (last * stride >= size + window.low[axis])
      --last;
    window.output[axis] = last + 1;
    int64_t end = last * stride + window.getExtent(axis);
    window.high[axis] += std::max<int64_t>(end - padded, 0);
  }
}

static FailureOr<Window> readPool(Node &node, bool isAllowed) {
  if (node.getRank(0) < 3 || !isAllowed)
    return node.emitUnsupported()
           << "expected [N, C, spatial...] of floats, got " << node.getType(0);
  FailureOr<Window> window = readWindow(node, {});
  if (failed(window))
    return failure();
  // One op is emitted per position in the window, which does not pay off for
  // larger windows.
  constexpr int64_t kMaxPlaces = 256;
  int64_t places = 1;
  for (int64_t size : window->kernel)
    places = std::min(places * size, kMaxPlaces + 1); // Each is at most 2^31.
  if (places > kMaxPlaces)
    return node.emitUnsupported()
           << "windows of more than " << kMaxPlaces
           << " elements are not supported, got [" << window->kernel << "]";
  if (node.getInt("ceil_mode", 0))
    addPartialWindows(*window, node.getShape(0).drop_front(2));
  return window;
}

LogicalResult mlir::binade::importer::importMaxPool(Node &node) {
  // The order of the indices.
  bool isColumnMajor = node.getInt("storage_order", 0);
  // 8-bit integers are exact in f32.
  Type element = node.getElement(0);
  bool isByte =
      isa<IntegerType>(element) && element.getIntOrFloatBitWidth() == 8;
  FailureOr<Window> window = readPool(node, isByte || node.hasFloats(0));
  if (failed(window))
    return failure();
  Value x = node.getInput(0);
  if (isByte)
    x = buildCast(node.b, x, node.b.getF32Type());
  Value padded = padSpatial(node.b, x, *window, -INFINITY);
  if (node.hasOutput(1))
    node.setOutput(1, numberMaxima(node, padded, *window, isColumnMajor));
  Value largest = combineWindow<MaxOp>(node.b, padded, *window);
  return node.setResult(buildCast(node.b, largest, element));
}

LogicalResult mlir::binade::importer::importAveragePool(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  bool countsPadding = node.getInt("count_include_pad", 0);
  FailureOr<Window> window = readPool(node, node.hasFloats(0));
  if (failed(window))
    return failure();
  FailureOr<Window> whole = readWindow(node, {});
  if (failed(whole))
    return failure();
  if (failed(getTensorType(node.getErrorLoc(), window->output,
                           node.getElement(0))) ||
      failed(node.checkCount(ShapedType::getNumElements(window->output),
                             kMaxNumbers, "sizes of windows")))
    return failure();
  Value padded = padSpatial(b, node.getInput(0), *window, 0.0);
  Value sum = combineWindow<AddOp>(b, padded, *window);
  auto type = cast<RankedTensorType>(sum.getType());
  // The number of elements that each window averages: a product over the axes.
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
        // Padding counts, but elements beyond it, in partial windows, do not.
        int64_t low = countsPadding ? -whole->low[axis] : 0;
        int64_t high = size + (countsPadding ? whole->high[axis] : 0);
        inside += place >= low && place < high;
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

/// Builds (sum |x|^p)^(1 / p), where `sum` reduces the powers.
static LogicalResult importNormPool(Node &node,
                                    function_ref<Value(Value)> sum) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t p = node.getInt("p", 2);
  if (p < 1)
    return node.emitUnsupported() << "expected a positive p, got " << p;
  Value x = node.getInput(0);
  Type element = node.getElement(0);
  if (element.getIntOrFloatBitWidth() < 32)
    x = buildCast(b, x, b.getF32Type());
  auto power = [&](Value y, double exponent) -> Value {
    return PowOp::create(b, y, buildSplat(b, y.getType(), exponent));
  };
  Value y;
  if (p == 1)
    y = sum(AbsOp::create(b, x));
  else if (p == 2)
    y = SqrtOp::create(b, sum(MulOp::create(b, x, x)));
  else
    y = power(sum(power(AbsOp::create(b, x), static_cast<double>(p))),
              1.0 / static_cast<double>(p));
  return node.setResult(buildCast(b, y, element));
}

LogicalResult mlir::binade::importer::importLpPool(Node &node) {
  FailureOr<Window> window = readPool(node, node.hasFloats(0));
  if (failed(window))
    return failure();
  return importNormPool(node, [&](Value powers) {
    Value padded = padSpatial(node.b, powers, *window, 0.0);
    return combineWindow<AddOp>(node.b, padded, *window);
  });
}

//===----------------------------------------------------------------------===//
// Global pooling
//===----------------------------------------------------------------------===//

static LogicalResult requireImage(Node &node) {
  if (node.getRank(0) >= 3 && node.hasFloats(0))
    return success();
  return node.emitUnsupported()
         << "expected [N, C, spatial...] of floats, got " << node.getType(0);
}

template <typename Op> static Value reduceImage(Node &node, Value x) {
  int64_t rank = node.getRank(0);
  auto axes = llvm::to_vector(llvm::seq<int64_t>(2, rank));
  SmallVector<int64_t> shape(node.getShape(0).take_front(2));
  shape.append(rank - 2, 1);
  Value y = Op::create(node.b, x, axes);
  if (std::is_same_v<Op, ReduceMaxOp>)
    setTies(y, Ties::First);
  return buildReshape(node.b, y, shape);
}

LogicalResult mlir::binade::importer::importGlobalAveragePool(Node &node) {
  if (failed(requireImage(node)))
    return failure();
  return node.setResult(reduceImage<ReduceMeanOp>(node, node.getInput(0)));
}

LogicalResult mlir::binade::importer::importGlobalMaxPool(Node &node) {
  if (failed(requireImage(node)))
    return failure();
  return node.setResult(reduceImage<ReduceMaxOp>(node, node.getInput(0)));
}

LogicalResult mlir::binade::importer::importGlobalLpPool(Node &node) {
  if (failed(requireImage(node)))
    return failure();
  return importNormPool(node, [&](Value powers) {
    return reduceImage<ReduceSumOp>(node, powers);
  });
}
