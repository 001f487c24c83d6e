//===- WriteRandom.cpp - ONNX nodes of random values ----------------------===//
// Writes Philox4x32-10 by integer arithmetic: ONNX's own random ops have no
// counter, so they cannot give the same values.
//===----------------------------------------------------------------------===//

#include "Rounding.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

namespace {
/// Arithmetic on 32-bit words in u64, which represents their products.
class Words {
public:
  explicit Words(OnnxWriter &w) : w(w) {}

  std::string widen(const std::string &x) { return w.cast(x, getType()); }
  std::string low(const std::string &x) {
    return w.add("BitwiseAnd", {x, getNumber(0xffffffff)});
  }
  std::string high(const std::string &x) { return shift(x, 32); }
  std::string shift(const std::string &x, unsigned bits) {
    std::string y = w.add("BitShift", {x, getNumber(bits)});
    w.setString("direction", "RIGHT");
    return y;
  }
  std::string add(const std::string &x, uint32_t y) {
    return low(w.add("Add", {x, getNumber(y)}));
  }
  std::string multiply(const std::string &x, uint32_t y) {
    return w.add("Mul", {x, getNumber(y)});
  }
  std::string bitXor(const std::string &x, const std::string &y) {
    return w.add("BitwiseXor", {x, y});
  }

private:
  IntegerType getType() { return w.b.getIntegerType(64, /*isSigned=*/false); }
  std::string getNumber(uint64_t value) {
    return w.addNumber(w.b.getIntegerAttr(getType(), value));
  }

  OnnxWriter &w;
};
} // namespace

std::array<std::string, 4>
mlir::binade::convert::drawWords(OnnxWriter &w, const RandomCounter &from) {
  Words words(w);
  std::string index = words.widen(from.index), seed = words.widen(from.seed);
  std::string c0 = words.low(index), c1 = words.high(index),
              c2 = words.low(words.widen(from.stream)),
              c3 = words.low(words.widen(from.step)), k0 = words.low(seed),
              k1 = words.high(seed);
  for (int round = 0; round < 10; ++round) {
    if (round > 0) {
      k0 = words.add(k0, 0x9E3779B9);
      k1 = words.add(k1, 0xBB67AE85);
    }
    std::string p0 = words.multiply(c0, 0xD2511F53),
                p1 = words.multiply(c2, 0xCD9E8D57);
    c0 = words.bitXor(words.bitXor(words.high(p1), c1), k0);
    c1 = words.low(p1);
    c2 = words.bitXor(words.bitXor(words.high(p0), c3), k1);
    c3 = words.low(p0);
  }
  return {c0, c1, c2, c3};
}

std::string mlir::binade::convert::getUniform(OnnxWriter &w,
                                              const std::string &word) {
  std::string bits = w.cast(Words(w).shift(word, 8), w.b.getF32Type());
  return w.add("Mul", {bits, w.addFloat(0x1p-24)});
}

std::string mlir::binade::convert::drawUniform(OnnxWriter &w,
                                               const std::string &rng,
                                               int64_t stream,
                                               ArrayRef<int64_t> shape) {
  int64_t elements = ShapedType::getNumElements(shape);
  std::string index = w.addRange(llvm::divideCeil(elements, 4));
  std::string seed = w.add("Gather", {rng, w.addInt(0)});
  std::string step = w.add("Gather", {rng, w.addInt(1)});
  SmallVector<std::string> numbers;
  for (const std::string &word :
       drawWords(w, {index, w.addInt(stream), step, seed}))
    numbers.push_back(w.reshape(getUniform(w, word), {-1, 1}));
  std::string rows = w.add("Concat", numbers);
  w.setInt("axis", 1);
  return w.reshape(w.slice(w.reshape(rows, {-1}), {0}, {elements}), shape);
}

/// Returns the scalar of which `x` is a broadcast, or `x`.
static std::string getWord(OnnxWriter &w, Value x) {
  auto broadcast = x.getDefiningOp<BroadcastOp>();
  bool isNumber = broadcast && getTensor(broadcast.getX()).getRank() == 0;
  return w.get(isNumber ? broadcast.getX() : x);
}

void mlir::binade::convert::writeRandom(OnnxWriter &w, RandomUniformOp op) {
  std::string index = w.get(op.getIndex()), counter = index;
  if (op.getPerCounter() == 4)
    counter = w.add("Div", {index, w.addInt(4)});
  std::array<std::string, 4> words =
      drawWords(w, {counter, w.addInt(op.getStream()), getWord(w, op.getStep()),
                    getWord(w, op.getSeed())});
  std::string number = getUniform(w, words.front());
  if (op.getPerCounter() == 4) {
    std::string place = w.add("Mod", {index, w.addInt(4)});
    for (int64_t which : {1, 2, 3})
      number = w.add("Where", {w.add("Equal", {place, w.addInt(which)}),
                               getUniform(w, words[which]), number});
  }
  w.set(op.getY(), number);
}
