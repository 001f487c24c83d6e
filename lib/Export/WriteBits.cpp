//===- WriteBits.cpp - ONNX nodes of bit operations -----------------------===//

#include "WriteBits.h"

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

void mlir::binade::convert::writeBits(OnnxWriter &w, BitcastOp op) {
  w.set(op.getY(),
        w.bitcast(w.get(op.getX()), getElementTypeOrSelf(op.getY())));
}

void mlir::binade::convert::writeBits(OnnxWriter &w, JoinHalvesOp op) {
  w.setWide(op.getResult(), joinHalves(w, w.get(op.getHigh()),
                                       w.get(op.getLow()), op.getRounded()));
}
