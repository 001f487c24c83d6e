//===- WriteConvolutions.cpp - Convolutions in ONNX's words ---------------===//

#include "OnnxWriter.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static void setPads(OnnxWriter &w, ArrayRef<int64_t> low,
                    ArrayRef<int64_t> high) {
  SmallVector<int64_t> pads(low);
  llvm::append_range(pads, high);
  w.setInts("pads", pads);
}

LogicalResult mlir::binade::convert::writeConvolution(OnnxWriter &w,
                                                      ConvOp op) {
  if (op.getChannelsLast())
    return failure();
  SmallVector<std::string> inputs{w.getWide(op.getX()),
                                  w.getWide(op.getWeight())};
  if (Value bias = op.getBias())
    inputs.push_back(w.getWide(bias));
  std::string y = w.add("Conv", inputs);
  setPads(w, op.getPaddingLow(), op.getPaddingHigh());
  w.setInts("strides", op.getStrides());
  w.setInts("dilations", op.getDilations());
  w.setInt("group", op.getGroups());
  w.setWide(op.getResult(), y);
  return success();
}

LogicalResult mlir::binade::convert::writeConvolution(OnnxWriter &w,
                                                      ConvInputGradOp op) {
  if (op.getChannelsLast())
    return failure();
  ArrayRef<int64_t> given = getShape(op.getGradient()).drop_front(2);
  ArrayRef<int64_t> kernel = getShape(op.getWeight()).drop_front(2);
  ArrayRef<int64_t> wanted = getShape(op.getResult()).drop_front(2);
  // What no position of the kernel reaches.
  SmallVector<int64_t> rest;
  for (size_t i = 0; i < given.size(); ++i)
    rest.push_back(wanted[i] + op.getPaddingLow()[i] + op.getPaddingHigh()[i] -
                   (given[i] - 1) * op.getStrides()[i] -
                   (kernel[i] - 1) * op.getDilations()[i] - 1);
  std::string y = w.add("ConvTranspose", {w.getWide(op.getGradient()),
                                          w.getWide(op.getWeight())});
  setPads(w, op.getPaddingLow(), op.getPaddingHigh());
  w.setInts("strides", op.getStrides());
  w.setInts("dilations", op.getDilations());
  w.setInts("output_padding", rest);
  w.setInt("group", op.getGroups());
  w.setWide(op.getResult(), y);
  return success();
}

/// A convolution with batch and channels exchanged, strides and dilations too.
LogicalResult mlir::binade::convert::writeConvolution(OnnxWriter &w,
                                                      ConvWeightGradOp op) {
  if (op.getChannelsLast() || op.getGroups() != 1)
    return failure();
  auto axes =
      llvm::to_vector(llvm::seq<int64_t>(0, getShape(op.getResult()).size()));
  std::swap(axes[0], axes[1]);
  auto exchange = [&](const std::string &value) {
    std::string result = w.add("Transpose", {value});
    w.setInts("perm", axes);
    return result;
  };
  std::string y = w.add("Conv", {exchange(w.getWide(op.getX())),
                                 exchange(w.getWide(op.getGradient()))});
  setPads(w, op.getPaddingLow(), op.getPaddingHigh());
  w.setInts("strides", op.getDilations());
  w.setInts("dilations", op.getStrides());
  // Positions beyond the kernel, where a stride left some over.
  ArrayRef<int64_t> kernel = getShape(op.getResult()).drop_front(2);
  SmallVector<int64_t> spatial(ArrayRef(axes).drop_front(2));
  y = w.add("Slice", {y, w.addInts(SmallVector<int64_t>(kernel.size(), 0)),
                      w.addInts(kernel), w.addInts(spatial)});
  w.setWide(op.getResult(), exchange(y));
  return success();
}
