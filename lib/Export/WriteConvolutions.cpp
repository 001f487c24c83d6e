//===- WriteConvolutions.cpp - ONNX nodes of convolutions -----------------===//

#include "OnnxWriter.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

/// Returns `x` in f32 with channels before spatial axes, as ONNX expects.
template <typename Op>
static std::string getActivation(OnnxWriter &w, Op op, Value x) {
  std::string name = w.getWide(x);
  if (!op.getChannelsLast())
    return name;
  auto rank = static_cast<int64_t>(getShape(x).size());
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, rank - 1));
  axes.insert(axes.begin() + 1, rank - 1);
  return w.transpose(name, axes);
}

/// Sets the result of `op` from a tensor with channels before spatial axes.
template <typename Op>
static void setActivation(OnnxWriter &w, Op op, std::string name) {
  if (op.getChannelsLast()) {
    auto rank = static_cast<int64_t>(getShape(op.getResult()).size());
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    axes.erase(axes.begin() + 1);
    axes.push_back(1);
    name = w.transpose(name, axes);
  }
  w.setWide(op.getResult(), name);
}

template <typename Op>
static SmallVector<int64_t> getSpatial(Op op, Value activation) {
  ArrayRef<int64_t> shape = getShape(activation);
  return SmallVector<int64_t>(op.getChannelsLast()
                                  ? shape.drop_front().drop_back()
                                  : shape.drop_front(2));
}

static void setPads(OnnxWriter &w, ArrayRef<int64_t> low,
                    ArrayRef<int64_t> high) {
  SmallVector<int64_t> pads(low);
  llvm::append_range(pads, high);
  w.setInts("pads", pads);
}

void mlir::binade::convert::writeConvolution(OnnxWriter &w, ConvOp op) {
  SmallVector<std::string> inputs{getActivation(w, op, op.getX()),
                                  w.getWide(op.getWeight())};
  if (Value bias = op.getBias())
    inputs.push_back(w.getWide(bias));
  std::string y = w.add("Conv", inputs);
  setPads(w, op.getPaddingLow(), op.getPaddingHigh());
  w.setInts("strides", op.getStrides());
  w.setInts("dilations", op.getDilations());
  w.setInt("group", op.getGroups());
  setActivation(w, op, y);
}

void mlir::binade::convert::writeConvolution(OnnxWriter &w,
                                             ConvInputGradOp op) {
  SmallVector<int64_t> given = getSpatial(op, op.getGradient());
  ArrayRef<int64_t> kernel = getShape(op.getWeight()).drop_front(2);
  SmallVector<int64_t> wanted = getSpatial(op, op.getResult());
  // The elements at the end that no position of the kernel covers.
  SmallVector<int64_t> rest;
  for (size_t i = 0; i < given.size(); ++i)
    rest.push_back(wanted[i] + op.getPaddingLow()[i] + op.getPaddingHigh()[i] -
                   (given[i] - 1) * op.getStrides()[i] -
                   (kernel[i] - 1) * op.getDilations()[i] - 1);
  std::string y =
      w.add("ConvTranspose", {getActivation(w, op, op.getGradient()),
                              w.getWide(op.getWeight())});
  setPads(w, op.getPaddingLow(), op.getPaddingHigh());
  w.setInts("strides", op.getStrides());
  w.setInts("dilations", op.getDilations());
  w.setInts("output_padding", rest);
  w.setInt("group", op.getGroups());
  setActivation(w, op, y);
}

/// Swaps the first two axes of `value`.
static std::string exchange(OnnxWriter &w, const std::string &value,
                            size_t rank) {
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(axes[0], axes[1]);
  return w.transpose(value, axes);
}

/// Writes a convolution with batch and channels swapped, and strides and
/// dilations swapped. With groups, the batch axis of each group of channels
/// becomes a group of input channels.
void mlir::binade::convert::writeConvolution(OnnxWriter &w,
                                             ConvWeightGradOp op) {
  ArrayRef<int64_t> kernel = getShape(op.getResult()).drop_front(2);
  size_t rank = kernel.size() + 2;
  int64_t groups = op.getGroups(), batch = getShape(op.getX()).front();
  int64_t channels = getShape(op.getResult())[1];
  SmallVector<int64_t> spatial = getSpatial(op, op.getX());
  std::string x = getActivation(w, op, op.getX());
  if (groups == 1) {
    x = exchange(w, x, rank);
  } else {
    SmallVector<int64_t> split = {batch, groups, channels};
    llvm::append_range(split, spatial);
    SmallVector<int64_t> axes = {2, 1, 0};
    llvm::append_range(axes, llvm::seq<int64_t>(3, rank + 1));
    SmallVector<int64_t> joined = {channels, groups * batch};
    llvm::append_range(joined, spatial);
    x = w.reshape(w.transpose(w.reshape(x, split), axes), joined);
  }
  std::string gradient =
      exchange(w, getActivation(w, op, op.getGradient()), rank);
  std::string y = w.add("Conv", {x, gradient});
  setPads(w, op.getPaddingLow(), op.getPaddingHigh());
  w.setInts("strides", op.getDilations());
  w.setInts("dilations", op.getStrides());
  w.setInt("group", groups);
  // Drop positions beyond the kernel, which exist if the stride left a
  // remainder.
  SmallVector<int64_t> ends = {channels, getShape(op.getResult())[0]};
  llvm::append_range(ends, kernel);
  y = w.slice(y, SmallVector<int64_t>(rank, 0), ends);
  w.setWide(op.getResult(), exchange(w, y, rank));
}
