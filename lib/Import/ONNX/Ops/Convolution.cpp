//===- Convolution.cpp - Import of convolutions ---------------------------===//

#include "../OpTable.h"
#include "Window.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

FailureOr<StringRef> mlir::binade::importer::readAutomaticPadding(Node &node) {
  StringRef word = node.getString("auto_pad", "NOTSET");
  if (word != "NOTSET" && word != "VALID" && word != "SAME_UPPER" &&
      word != "SAME_LOWER")
    return node.emitError() << "does not know auto_pad " << quote(word);
  return word;
}

/// Reads attribute `name`, whose default is `numbers`. Fails unless it has
/// `count` elements that are at least `least`.
static LogicalResult readNumbers(Node &node, StringRef name, size_t count,
                                 int64_t least, SmallVector<int64_t> &numbers) {
  constexpr int64_t kMax = int64_t(1) << 31;
  numbers = node.getInts(name, SmallVector<int64_t>(numbers));
  if (numbers.size() == count && llvm::all_of(numbers, [&](int64_t number) {
        return number >= least && number <= kMax;
      }))
    return success();
  return node.emitError() << "attribute " << quote(name) << ": expected "
                          << count << " numbers from " << least
                          << " to 2^31 for " << node.getType(0) << ", got ["
                          << numbers << "]";
}

FailureOr<Window> mlir::binade::importer::readGeometry(Node &node,
                                                       ArrayRef<int64_t> kernel,
                                                       size_t rank) {
  Window window;
  window.kernel.assign(kernel.begin(), kernel.end());
  window.strides.assign(rank, 1);
  window.dilations.assign(rank, 1);
  SmallVector<int64_t> pads(2 * rank, 0);
  if (failed(readNumbers(node, "kernel_shape", rank, 1, window.kernel)) ||
      failed(readNumbers(node, "strides", rank, 1, window.strides)) ||
      failed(readNumbers(node, "dilations", rank, 1, window.dilations)) ||
      failed(readNumbers(node, "pads", 2 * rank, 0, pads)))
    return failure();
  window.low.assign(pads.begin(), pads.begin() + rank);
  window.high.assign(pads.begin() + rank, pads.end());
  return window;
}

FailureOr<Window> mlir::binade::importer::readWindow(Node &node,
                                                     ArrayRef<int64_t> kernel,
                                                     unsigned index) {
  ArrayRef<int64_t> sizes = node.getShape(index).drop_front(2);
  FailureOr<Window> read = readGeometry(node, kernel, sizes.size());
  FailureOr<StringRef> automatic = readAutomaticPadding(node);
  if (failed(read) || failed(automatic))
    return failure();
  Window &window = *read;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    int64_t &low = window.low[axis], &high = window.high[axis];
    if (*automatic == "VALID")
      low = high = 0;
    if (automatic->starts_with("SAME")) {
      int64_t steps = llvm::divideCeil(sizes[axis], window.strides[axis]);
      int64_t total =
          std::max<int64_t>(0, (steps - 1) * window.strides[axis] +
                                   window.getExtent(axis) - sizes[axis]);
      low = *automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
    }
    int64_t room = sizes[axis] + low + high - window.getExtent(axis);
    // With ceil_mode, a single window may extend beyond the end.
    bool isCut = node.getInt("ceil_mode", 0) && room > -window.strides[axis];
    if (room < 0 && !isCut)
      return node.emitError()
             << "has a window of " << window.getExtent(axis)
             << " elements along axis " << axis + 2 << ", which has "
             << sizes[axis] + low + high << " with padding";
    window.output.push_back(room / window.strides[axis] + 1);
  }
  return window;
}

FailureOr<Window> mlir::binade::importer::readConvolution(Node &node,
                                                          unsigned index,
                                                          unsigned weightIndex,
                                                          int64_t groups) {
  RankedTensorType x = node.getType(index), weight = node.getType(weightIndex);
  int64_t rank = x.getRank();
  if (rank < 3 || rank > 5 || weight.getRank() != rank || groups < 1 ||
      x.getDimSize(1) != weight.getDimSize(1) * groups ||
      weight.getDimSize(0) % groups != 0)
    return node.emitError() << "cannot convolve " << x << " with " << weight
                            << " in " << groups << " groups";
  ArrayRef<int64_t> kernel = weight.getShape().drop_front(2);
  FailureOr<Window> window = readWindow(node, kernel, index);
  if (succeeded(window) && ArrayRef(window->kernel) != kernel)
    return node.emitError() << "kernel_shape is [" << window->kernel
                            << "], the weight's is [" << kernel << "]";
  return window;
}

/// Reads a convolution of input `index` with the weight `index` + 1; fails
/// unless both have the same float type.
static FailureOr<Window> readFloatConvolution(Node &node, unsigned index,
                                              int64_t groups) {
  if (!node.hasFloats(index) ||
      node.getElement(index + 1) != node.getElement(index))
    return node.emitError() << "cannot convolve " << node.getType(index)
                            << " with " << node.getType(index + 1);
  return readConvolution(node, index, index + 1, groups);
}

/// Returns the shape of the result of a convolution of input `index`.
static SmallVector<int64_t> getOutputShape(Node &node, unsigned index,
                                           const Window &window) {
  SmallVector<int64_t> shape = {node.getShape(index)[0],
                                node.getShape(index + 1)[0]};
  llvm::append_range(shape, window.output);
  return shape;
}

LogicalResult mlir::binade::importer::importConv(Node &node) {
  int64_t groups = node.getInt("group", 1);
  FailureOr<Window> window = readFloatConvolution(node, 0, groups);
  if (failed(window))
    return failure();
  RankedTensorType x = node.getType(0), weight = node.getType(1);
  Value bias = node.getInput(2);
  if (bias &&
      (node.getRank(2) != 1 || node.getShape(2)[0] != weight.getDimSize(0) ||
       node.getElement(2) != x.getElementType()))
    return node.emitError() << "expected a bias of " << weight.getDimSize(0)
                            << " elements, got " << node.getType(2);
  return node.setResult(ConvOp::create(
      node.b, x.clone(getOutputShape(node, 0, *window)), node.getInput(0),
      node.getInput(1), bias, window->strides, window->low, window->high,
      window->dilations, groups, /*channels_last=*/false, PrecisionAttr()));
}

/// Builds the gradients of Conv with respect to input, weight and bias. The
/// inputs of the node are the gradient of the result, the input and the weight.
LogicalResult mlir::binade::importer::importConvGrad(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t groups = node.getInt("group", 1);
  FailureOr<Window> window = readFloatConvolution(node, 1, groups);
  if (failed(window))
    return failure();
  auto expected = node.getType(1).clone(getOutputShape(node, 1, *window));
  if (node.getType(0) != expected)
    return node.emitError()
           << "expected a gradient " << expected << ", got " << node.getType(0);
  Value dy = node.getInput(0);
  if (node.hasOutput(0))
    node.setOutput(
        0, ConvInputGradOp::create(b, node.getType(1), dy, node.getInput(2),
                                   window->strides, window->low, window->high,
                                   window->dilations, groups,
                                   /*channels_last=*/false, PrecisionAttr()));
  if (node.hasOutput(1))
    node.setOutput(
        1, ConvWeightGradOp::create(b, node.getType(2), dy, node.getInput(1),
                                    window->strides, window->low, window->high,
                                    window->dilations, groups,
                                    /*channels_last=*/false, PrecisionAttr()));
  if (node.hasOutput(2)) {
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, expected.getRank()));
    axes.erase(axes.begin() + 1);
    node.setOutput(2, ReduceSumOp::create(b, dy, axes));
  }
  return success();
}

/// Builds a causal depthwise convolution. The state, the last k - 1 elements of
/// the preceding sequence, is prepended; the last k - 1 elements are the next
/// state.
LogicalResult mlir::binade::importer::importCausalConv(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  StringRef activation = node.getString("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return node.emitError() << "does not know activation " << quote(activation);
  RankedTensorType type = node.getType(0), weight = node.getType(1);
  if (type.getRank() != 3 || failed(requireFloats(node)) ||
      weight.getRank() != 3 ||
      weight.getElementType() != type.getElementType() ||
      weight.getDimSize(0) != type.getDimSize(1) || weight.getDimSize(1) != 1)
    return node.emitError()
           << "expected [N, C, length] and [C, 1, k] of floats, "
           << "got " << type << " and " << weight;
  int64_t kept = weight.getDimSize(2) - 1, length = type.getDimSize(2);
  if (kept < 0)
    return node.emitError()
           << "expected a kernel that is not empty, got " << weight;
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = kept;
  auto stateType = type.clone(shape);
  Value state = node.getInput(3), bias = node.getInput(2);
  if (state && state.getType() != stateType)
    return node.emitError()
           << "expected a state " << stateType << ", got " << node.getType(3);
  if (bias && node.getType(2) != type.clone(weight.getDimSize(0)))
    return node.emitError() << "expected a bias of " << weight.getDimSize(0)
                            << " elements, got " << node.getType(2);
  if (!state)
    state = buildSplat(b, stateType, 0.0);
  shape.back() = kept + length;
  Value whole = node.getInput(0);
  if (kept > 0)
    whole = ConcatOp::create(b, type.clone(shape), ValueRange{state, whole}, 2);
  SmallVector<int64_t> one = {1}, none = {0};
  Value y = ConvOp::create(b, type, whole, node.getInput(1), bias, one, none,
                           none, one, type.getDimSize(1),
                           /*channels_last=*/false, PrecisionAttr());
  if (activation != "none")
    y = SiluOp::create(b, y);
  node.setOutput(0, y);
  node.setOutput(1, buildSlice(b, whole, 2, length, kept));
  return success();
}

//===----------------------------------------------------------------------===//
// Transposed convolutions
//===----------------------------------------------------------------------===//

/// Computes padding and output lengths of a transposed convolution of an input
/// of `sizes`. Padding becomes negative where the output is larger than what
/// the kernel covers.
static LogicalResult readTransposed(Node &node, Window &window,
                                    ArrayRef<int64_t> sizes) {
  size_t rank = sizes.size();
  SmallVector<int64_t> zeros(rank, 0);
  SmallVector<int64_t> more = node.getInts("output_padding", zeros);
  SmallVector<int64_t> output = node.getInts("output_shape");
  FailureOr<StringRef> automatic = readAutomaticPadding(node);
  if (failed(automatic))
    return failure();
  if (output.size() > rank) // Some files include batch and channels.
    output.erase(output.begin(), output.end() - rank);
  if (more.size() != rank || (!output.empty() && output.size() != rank))
    return node.emitError() << "expected output_padding and output_shape of "
                            << rank << " numbers";
  if (llvm::any_of(more, [](int64_t n) { return n < 0 || n > (1 << 30); }) ||
      llvm::any_of(output, [](int64_t n) { return n < 1 || n > (1 << 30); }))
    return node.emitUnsupported() << "output_padding must not be negative, and "
                                     "output_shape has to be positive";
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t reached = (sizes[axis] - 1) * window.strides[axis] +
                      window.getExtent(axis) + more[axis];
    bool isSame = automatic->starts_with("SAME");
    if (!output.empty() || isSame) {
      int64_t wanted =
          output.empty() ? sizes[axis] * window.strides[axis] : output[axis];
      int64_t total = reached - wanted;
      // A missing part is added at the end.
      int64_t half = total < 0 ? 0 : total / 2;
      window.low[axis] =
          *automatic == "SAME_UPPER" || total < 0 ? half : total - half;
      window.high[axis] = total - window.low[axis];
    } else if (*automatic == "VALID") {
      window.low[axis] = window.high[axis] = 0;
    }
    window.output.push_back(reached - window.low[axis] - window.high[axis]);
    window.high[axis] -= more[axis];
    if (window.output.back() < 1)
      return node.emitError() << "has no output along axis " << axis + 2;
  }
  return success();
}

/// Builds a transposed convolution as the gradient of a convolution with
/// respect to its input.
LogicalResult mlir::binade::importer::importConvTranspose(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t groups = node.getInt("group", 1), rank = node.getRank(0);
  RankedTensorType x = node.getType(0), weight = node.getType(1);
  if (rank < 3 || rank > 5 || weight.getRank() != rank || !node.hasFloats(0) ||
      weight.getElementType() != x.getElementType() || groups < 1 ||
      x.getDimSize(1) != weight.getDimSize(0) ||
      weight.getDimSize(0) % groups != 0)
    return node.emitError() << "cannot convolve " << x << " with " << weight
                            << ", transposed, in " << groups << " groups";
  ArrayRef<int64_t> kernel = weight.getShape().drop_front(2);
  FailureOr<Window> window = readGeometry(node, kernel, rank - 2);
  if (failed(window) ||
      failed(readTransposed(node, *window, x.getShape().drop_front(2))))
    return failure();
  if (ArrayRef(window->kernel) != kernel)
    return node.emitError() << "kernel_shape is [" << window->kernel
                            << "], the weight's is [" << kernel << "]";
  int64_t channels = weight.getDimSize(1) * groups;
  SmallVector<int64_t> shape = {x.getDimSize(0), channels};
  llvm::append_range(shape, window->output);
  // Elements beyond what the kernel covers are zeros, padded afterwards.
  SmallVector<int64_t> reached = shape;
  for (auto [size, high] :
       llvm::zip(MutableArrayRef(reached).drop_front(2), window->high)) {
    size += std::min<int64_t>(high, 0);
    high = std::max<int64_t>(high, 0);
    if (size < 1)
      return node.emitUnsupported()
             << "has an output_padding that exceeds the output";
  }
  Value y = ConvInputGradOp::create(
      b, x.clone(reached), node.getInput(0), node.getInput(1), window->strides,
      window->low, window->high, window->dilations, groups,
      /*channels_last=*/false, PrecisionAttr());
  if (reached != shape)
    y = PadOp::create(b, x.clone(shape), y, SmallVector<int64_t>(rank, 0),
                      SmallVector<int64_t>(rank, 1));
  if (node.hasInput(2)) {
    if (node.getRank(2) != 1 || node.getShape(2)[0] != channels ||
        node.getElement(2) != x.getElementType())
      return node.emitError() << "expected a bias of " << channels
                              << " elements, got " << node.getType(2);
    y = AddOp::create(b, y, buildBroadcast(b, node.getInput(2), {1}, shape));
  }
  return node.setResult(y);
}
