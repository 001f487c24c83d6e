//===- WriteBits.cpp - ONNX nodes of bit operations -----------------------===//

#include "WriteBits.h"
#include "FloatNodes.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

static constexpr int32_t kHalf = 1 << 16;

/// Returns the name of an i32 constant.
static std::string getWord(OnnxWriter &w, int32_t value) {
  return w.addNumber(w.b.getI32IntegerAttr(value));
}

/// Computes in i32: the word is the signed upper half times 2^16 plus the lower
/// half.
std::string mlir::binade::convert::joinHalves(OnnxWriter &w,
                                              const std::string &high,
                                              const std::string &low,
                                              bool isRounded) {
  Type i32 = w.b.getI32Type();
  std::string upper = w.cast(w.bitcast(high, w.b.getIntegerType(16)), i32);
  upper = w.add("Mul", {upper, getWord(w, kHalf)});
  std::string lower = w.cast(low, i32);
  if (!isRounded)
    lower = w.add("BitwiseAnd", {lower, getWord(w, kHalf - 1)});
  return w.bitcast(w.add("Add", {upper, lower}), w.b.getF32Type());
}

std::pair<std::string, std::string>
mlir::binade::convert::splitHalves(OnnxWriter &w, const std::string &value,
                                   bool isRounded) {
  Type i16 = w.b.getIntegerType(16), i32 = w.b.getI32Type();
  std::string word = w.bitcast(value, i32);
  std::string lower = w.add("BitwiseAnd", {word, getWord(w, kHalf - 1)});
  std::string isNegative =
      w.add("GreaterOrEqual", {lower, getWord(w, kHalf / 2)});
  std::string below = w.add("Sub", {lower, getWord(w, kHalf)});
  std::string low = w.add("Where", {isNegative, below, lower});
  // Without the lower part, the division is exact.
  std::string rest = w.add("Sub", {word, isRounded ? low : lower});
  std::string upper = w.add("Div", {rest, getWord(w, kHalf)});
  return {w.bitcast(w.cast(upper, i16), w.b.getBF16Type()), w.cast(low, i16)};
}

/// The largest 8-bit code of a rounding error.
static constexpr double kMaxCode = 127;

/// Returns half the distance between bf16 values of this magnitude, in f64.
static std::string getHalfUnit(OnnxWriter &w, const std::string &magnitude) {
  FloatNodes nodes(w);
  std::string normal =
      w.add("Min", {w.add("Max", {magnitude, nodes.constant(0x1p-126)}),
                    nodes.constant(0x1p127)});
  return w.add("Mul", {nodes.getUnit(normal), nodes.constant(0x1p-8)});
}

static std::string isFinite(OnnxWriter &w, const std::string &magnitude) {
  return w.add("Less", {magnitude, FloatNodes(w).constant(INFINITY)});
}

std::string mlir::binade::convert::addError(OnnxWriter &w,
                                            const std::string &rounded,
                                            const std::string &code) {
  FloatNodes nodes(w);
  std::string p = nodes.widen(w.cast(rounded, w.b.getF32Type()));
  std::string error =
      w.add("Div", {nodes.widen(code), nodes.constant(kMaxCode)});
  error = w.add("Mul", {error, getHalfUnit(w, w.add("Abs", {p}))});
  return nodes.narrow(w.add("Add", {p, error}));
}

std::string mlir::binade::convert::writeRoundingError(
    OnnxWriter &w, const std::string &value, const std::string &rounded) {
  FloatNodes nodes(w);
  std::string p = nodes.widen(w.cast(rounded, w.b.getF32Type()));
  std::string magnitude = w.add("Abs", {p});
  std::string error = w.add("Sub", {nodes.widen(value), p});
  error = w.add("Div", {error, getHalfUnit(w, magnitude)});
  error = w.add("Mul", {error, nodes.constant(kMaxCode)});
  std::string whole = w.add(
      "Floor", {w.add("Add", {w.add("Abs", {error}), nodes.constant(0.5)})});
  std::string code = w.add("Mul", {whole, w.add("Sign", {error})});
  code = w.add("Where", {isFinite(w, magnitude), code, nodes.constant(0.0)});
  return w.cast(code, w.b.getI8Type());
}

void mlir::binade::convert::writeBits(OnnxWriter &w, BitcastOp op) {
  w.set(op.getY(),
        w.bitcast(w.get(op.getX()), getElementTypeOrSelf(op.getY())));
}

void mlir::binade::convert::writeBits(OnnxWriter &w, JoinHalvesOp op) {
  std::string high = w.get(op.getHigh()), low = w.get(op.getLow());
  bool isCode = getElementTypeOrSelf(op.getLow()).isInteger(8);
  w.setWide(op.getResult(), isCode ? addError(w, high, low)
                                   : joinHalves(w, high, low, op.getRounded()));
}
