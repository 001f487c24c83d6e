//===- WriteQuantization.cpp - ONNX nodes of quantization ops -------------===//

#include "Codes.h"
#include "Rounding.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

static SmallVector<std::string> getWide(OnnxWriter &w, ValueRange values) {
  return llvm::map_to_vector(values,
                             [&](Value value) { return w.getWide(value); });
}

LogicalResult mlir::binade::convert::writeQuantization(OnnxWriter &w,
                                                       QuantizeOp op) {
  Codes codes(w, op.getFormat(), getShape(op.getX()));
  if (!codes.hasType())
    return failure();
  std::string random, amax;
  if (op.getRng())
    random = drawUniform(w, w.get(op.getRng()), *op.getStream(),
                         getShape(op.getFormat().correctsScales()
                                      ? Value(op.getParts()[1])
                                      : op.getX()));
  if (op.getAmax())
    amax = w.get(op.getAmax());
  SmallVector<std::string> parts =
      codes.quantize(w.getWide(op.getX()), op.getSaturate(), random, amax);
  w.set(op.getParts().front(), parts.front());
  for (auto [value, name] :
       llvm::drop_begin(llvm::zip_equal(op.getParts(), parts)))
    w.setWide(value, name);
  return success();
}

LogicalResult mlir::binade::convert::writeQuantization(OnnxWriter &w,
                                                       DequantizeOp op) {
  Codes codes(w, op.getFormat(), getShape(op.getY()));
  if (!codes.hasType())
    return failure();
  SmallVector<std::string> parts = {w.get(op.getParts().front())};
  llvm::append_range(parts, getWide(w, op.getParts().drop_front()));
  w.setWide(op.getY(), codes.dequantize(parts));
  return success();
}

LogicalResult mlir::binade::convert::writeQuantization(OnnxWriter &w,
                                                       GroupMaxOp op) {
  SmallVector<int64_t> split(getShape(op.getX()));
  int64_t axis =
      static_cast<int64_t>(split.size()) + static_cast<int64_t>(op.getAxis());
  auto size = static_cast<int64_t>(op.getSize());
  split[axis] /= size;
  split.insert(split.begin() + axis + 1, size);
  std::string x = w.reshape(w.getWide(op.getX()), split);
  std::string y = w.reduceMax(x, {axis + 1});
  w.setWide(op.getY(), w.reshape(y, getShape(op.getY())));
  return success();
}

LogicalResult mlir::binade::convert::writeQuantization(OnnxWriter &w,
                                                       ChooseScaleOp op) {
  Codes codes(w, op.getFormat(), getShape(op.getAmax()));
  Codes::Factors factors =
      codes.choose(w.get(op.getAmax()),
                   op.getLeast() ? w.get(op.getLeast()) : std::string());
  w.setWide(op.getScale(), factors.scale);
  w.set(op.getFactor(), factors.factor);
  for (auto [value, name] :
       llvm::zip(op.getExpansion(), ArrayRef{factors.power, factors.centre}))
    w.set(value, name);
  return success();
}

LogicalResult mlir::binade::convert::writeQuantization(OnnxWriter &w,
                                                       EncodeOp op) {
  Codes codes(w, op.getFormat(), getShape(op.getX()));
  if (!codes.hasType())
    return failure();
  Codes::Factors factors;
  factors.factor = w.get(op.getFactor());
  SmallVector<std::string> rest = getWide(w, op.getRest());
  if (op.getFormat().getExpand()) {
    factors.power = rest[0];
    factors.centre = rest[1];
  }
  std::string random = op.getFormat().getStochastic() ? rest.back() : "";
  w.set(op.getCodes(),
        codes.encode(w.get(op.getX()), factors, op.getSaturate(), random));
  return success();
}

//===----------------------------------------------------------------------===//
// Scaled matmuls
//===----------------------------------------------------------------------===//

/// Returns an operand as [blocks, rows, length] and its scales as [blocks,
/// rows, 1], where blocks of `length` elements divide the contracted axis. In
/// `scales`, one scale belongs to `height` rows and `length` elements.
static std::pair<std::string, std::string> writeSide(OnnxWriter &w, Value codes,
                                                     Value scales,
                                                     int64_t height,
                                                     int64_t length) {
  int64_t rows = getShape(codes)[0], summands = getShape(codes)[1];
  int64_t blocks = llvm::divideCeil(summands, length);
  std::string x = w.getWide(codes), scale = w.get(scales);
  if (int64_t rest = blocks * length - summands)
    x = w.add("Pad", {x, w.addInts({0, 0, 0, rest})});
  x = w.transpose(w.reshape(x, {rows, blocks, length}), {1, 0, 2});
  if (height == 1) {
    scale = w.slice(scale, {0, 0}, {blocks, rows});
  } else {
    int64_t bands = llvm::divideCeil(rows, height);
    scale = w.transpose(w.slice(scale, {0, 0}, {bands, blocks}), {1, 0});
    scale = w.add("Expand", {w.reshape(scale, {blocks, bands, 1}),
                             w.addInts({blocks, bands, height})});
    scale = w.slice(w.reshape(scale, {blocks, bands * height}), {0, 0},
                    {blocks, rows});
  }
  return {x, w.reshape(scale, {blocks, rows, 1})};
}

/// Writes one matmul per block of the contracted axis, multiplies it by the
/// scales of both operands, and adds the results.
LogicalResult mlir::binade::convert::writeQuantization(OnnxWriter &w,
                                                       ScaledMatmulOp op) {
  if (op.getAccumulation())
    return op.emitError("models the accumulator of a matrix unit, for which "
                        "ONNX has no op; export a module that was compiled "
                        "with a policy without such 'accumulate', for example "
                        "fp8-current");
  auto setResult = [&](std::string sum) {
    if (op.getBias())
      sum = w.add("Add", {sum, w.getWide(op.getBias())});
    w.setWide(op.getY(), sum);
    return success();
  };
  auto axes =
      llvm::to_vector(llvm::seq<int64_t>(0, getShape(op.getY()).size()));
  if (!op.getBlock()) {
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    std::string rhs = w.transpose(w.getWide(op.getRhs()), axes);
    std::string y = w.add("MatMul", {w.getWide(op.getLhs()), rhs});
    std::string scale =
        w.add("Mul", {w.get(op.getLhsScale()), w.get(op.getRhsScale())});
    return setResult(w.add("Mul", {y, scale}));
  }
  ArrayRef<int64_t> block = *op.getBlock();
  auto [lhs, lhsScales] =
      writeSide(w, op.getLhs(), op.getLhsScale(), block[0], block[2]);
  auto [rhs, rhsScales] =
      writeSide(w, op.getRhs(), op.getRhsScale(), block[1], block[2]);
  std::string y = w.add("MatMul", {lhs, w.transpose(rhs, {0, 2, 1})});
  y = w.add("Mul", {y, lhsScales});
  y = w.add("Mul", {y, w.transpose(rhsScales, {0, 2, 1})});
  return setResult(w.reduce("ReduceSum", y, {0}));
}
