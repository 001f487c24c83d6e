//===- Random.cpp - Random values and dropout -----------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Diagnostics.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Random.cpp.inc"

Schedule RandomUniformOp::getSchedule() { return Schedule::Elementwise; }

LogicalResult mlir::binade::verifyStream(Operation *op, int64_t stream) {
  if (stream >= 0 && stream <= UINT32_MAX)
    return success();
  return op->emitOpError("expects a stream of 32 bits, got ") << stream;
}

LogicalResult RandomUniformOp::verify() {
  if (getPerCounter() != 1 && getPerCounter() != 4) // C2
    return emitOpError("expects 1 or 4 elements per counter, got ")
           << getPerCounter();
  return verifyStream(*this, getStream()); // C1
}

LogicalResult mlir::binade::verifyDropout(Operation *op, const APFloat &ratio,
                                          int64_t stream) {
  double p = ratio.convertToDouble();
  if (!(p >= 0.0 && p <= 1.0)) // C1
    return op->emitOpError("expects a ratio in [0, 1], got ")
           << formatNumber(p);
  return verifyStream(op, stream); // C2
}

SmallVector<Value> DropoutOp::buildEvaluation(ImplicitLocOpBuilder &,
                                              function_ref<Value(Value)>) {
  return {getX()};
}

SmallVector<Value> DropoutOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                           ArrayRef<Value> cotangents) {
  return {DropoutGradOp::create(b, cotangents.front(), getRng(), getRatio(),
                                getStream(), PrecisionAttr()),
          Value()};
}

Value mlir::binade::buildRngWord(ImplicitLocOpBuilder &b, Value rng,
                                 int64_t index) {
  Value one = SliceOp::create(b, RankedTensorType::get({1}, b.getI64Type()),
                              rng, index, int64_t(1));
  return buildReshape(b, one, {});
}

Value mlir::binade::buildRandomValues(ImplicitLocOpBuilder &b, Value rng,
                                      int64_t stream, Value index,
                                      int64_t perCounter) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(index.getType()).getShape();
  auto word = [&](int64_t which) {
    return buildBroadcast(b, buildRngWord(b, rng, which), {}, shape);
  };
  return RandomUniformOp::create(b,
                                 RankedTensorType::get(shape, b.getF32Type()),
                                 index, word(0), word(1), stream, perCounter);
}

Value mlir::binade::buildRandomTensor(ImplicitLocOpBuilder &b, Value rng,
                                      int64_t stream, ArrayRef<int64_t> shape,
                                      int64_t perCounter) {
  auto indices = RankedTensorType::get(shape, b.getI64Type());
  return buildRandomValues(
      b, rng, stream, IotaOp::create(b, indices, IntegerAttr()), perCounter);
}

Value mlir::binade::buildDropout(ImplicitLocOpBuilder &b, Value x,
                                 Value uniform, const APFloat &ratio) {
  double p = ratio.convertToDouble();
  // An element is kept if its random value is at least the ratio. Random values
  // are multiples of 2^-24; the ratio, rounded up to one, is exact in f32.
  double smallest = std::ceil(p * 0x1.0p24) * 0x1.0p-24;
  Value kept =
      CompareOp::create(b, uniform, buildSplat(b, uniform.getType(), smallest),
                        Comparison::GreaterEqual);
  Value wide = buildCast(b, x, b.getF32Type());
  // With a ratio of 1 no element is kept, and the factor must not be infinite.
  double factor = p < 1.0 ? 1.0 / (1.0 - p) : 0.0;
  Value scaled = MulOp::create(b, wide, buildSplat(b, wide.getType(), factor));
  return SelectOp::create(b, kept, scaled,
                          buildSplat(b, scaled.getType(), 0.0));
}

FailureOr<SmallVector<Value>>
mlir::binade::decomposeDropout(ImplicitLocOpBuilder &b, Value x, Value rng,
                               const APFloat &ratio, int64_t stream,
                               Type type) {
  Value uniform = buildRandomTensor(b, rng, stream,
                                    cast<RankedTensorType>(type).getShape());
  Value y = buildDropout(b, x, uniform, ratio);
  return SmallVector<Value>{buildCast(b, y, getElementTypeOrSelf(type))};
}

//===----------------------------------------------------------------------===//
// Philox4x32-10 on elements
//===----------------------------------------------------------------------===//

namespace {
/// Arithmetic on 32-bit words that are stored in i64, so that `low` and `high`
/// are the halves of a product.
struct Words {
  ImplicitLocOpBuilder &b;
  Value like; ///< Has the type of the results: i64 or a vector of it.
  Value constant(uint64_t v) {
    Type type = like.getType();
    TypedAttr value = b.getI64IntegerAttr(static_cast<int64_t>(v));
    if (auto vector = dyn_cast<VectorType>(type))
      value = DenseElementsAttr::get(vector, cast<Attribute>(value));
    return arith::ConstantOp::create(b, value);
  }
  Value low(Value x) {
    return arith::AndIOp::create(b, x, constant(0xffffffff));
  }
  Value high(Value x) { return arith::ShRUIOp::create(b, x, constant(32)); }
  Value mul(Value x, uint64_t v) {
    return arith::MulIOp::create(b, x, constant(v));
  }
  Value add(Value x, uint64_t v) {
    return low(arith::AddIOp::create(b, x, constant(v)));
  }
  Value bitXor(Value x, Value y) { return arith::XOrIOp::create(b, x, y); }
};
} // namespace

std::array<Value, 4> mlir::binade::buildRandomWords(ImplicitLocOpBuilder &b,
                                                    Value index, Value stream,
                                                    Value step, Value seed) {
  Words w{b, index};
  // The counter and the key.
  Value c0 = w.low(index), c1 = w.high(index), c2 = w.low(stream),
        c3 = w.low(step);
  Value k0 = w.low(seed), k1 = w.high(seed);
  for (int round = 0; round < 10; ++round) {
    Value p0 = w.mul(c0, 0xD2511F53), p1 = w.mul(c2, 0xCD9E8D57);
    Value n0 = w.bitXor(w.bitXor(w.high(p1), c1), k0);
    Value n2 = w.bitXor(w.bitXor(w.high(p0), c3), k1);
    c1 = w.low(p1);
    c3 = w.low(p0);
    c0 = n0;
    c2 = n2;
    k0 = w.add(k0, 0x9E3779B9);
    k1 = w.add(k1, 0xBB67AE85);
  }
  return {c0, c1, c2, c3};
}

Value mlir::binade::buildUniform(ImplicitLocOpBuilder &b, Value word) {
  Value bits = arith::ShRUIOp::create(b, word, Words{b, word}.constant(8));
  Type type = b.getF32Type();
  if (auto vector = dyn_cast<VectorType>(word.getType()))
    type = vector.clone(type);
  Value integer = arith::SIToFPOp::create(b, type, bits);
  return arith::MulFOp::create(b, integer, splat(b, integer, 0x1.0p-24));
}

Value RandomUniformOp::buildScalar(ImplicitLocOpBuilder &b,
                                   ValueRange operands) {
  Value index = operands[0], seed = operands[1], step = operands[2];
  Words w{b, index};
  Value stream = w.constant(getStream());
  if (getPerCounter() == 1)
    return buildUniform(b,
                        buildRandomWords(b, index, stream, step, seed).front());
  Value counter = arith::ShRUIOp::create(b, index, w.constant(2));
  std::array<Value, 4> words = buildRandomWords(b, counter, stream, step, seed);
  auto choose = [&](uint64_t bit, Value zero, Value one) -> Value {
    Value isZero = arith::CmpIOp::create(
        b, arith::CmpIPredicate::eq,
        arith::AndIOp::create(b, index, w.constant(bit)), w.constant(0));
    return arith::SelectOp::create(b, isZero, zero, one);
  };
  return buildUniform(b, choose(2, choose(1, words[0], words[1]),
                                choose(1, words[2], words[3])));
}
