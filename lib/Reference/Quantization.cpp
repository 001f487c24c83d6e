//===- Quantization.cpp - codes with shared scales ------------------------===//

#include "Codec.h"
#include "Families.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

namespace {
/// The codes of a tensor: numbers of a float format, or bits, of which those of
/// two elements may share a byte.
struct CodeReader {
  const Codec &codec;
  const Tensor &codes;
  bool isPacked;

  float operator[](int64_t index) const {
    if (codes.isFloat())
      return static_cast<float>(codes[index]);
    ArrayRef<int64_t> bytes = codes.getIntegers();
    if (!isPacked)
      return codec.decode(bytes[index]);
    return codec.decode(bytes[index / 2] >> (index % 2 ? 0 : 4));
  }
};

struct CodeWriter {
  const Codec &codec;
  Tensor &codes;
  bool isPacked;

  void set(int64_t index, float number) {
    if (codes.isFloat())
      codes[index] = number;
    else if (isPacked)
      codes.getIntegers()[index / 2] |= codec.encode(number)
                                        << (index % 2 ? 0 : 4);
    else
      codes.getIntegers()[index] = codec.encode(number);
  }
};
} // namespace

static float getNumber(const Tensor &tensor, int64_t index) {
  return static_cast<float>(tensor[index]);
}

/// A NaN among the magnitudes is their largest, and their least.
static void evaluateQuantize(QuantizeOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  QuantizedAttr format = op.getFormat();
  Codec codec(format);
  int64_t count =
      ShapedType::getNumElements(format.getScaleShape(x.getShape()));
  std::vector<float> amax(count, 0.0f), least(count, INFINITY);
  auto find = [&](int64_t i) { return codec.findScale(x.getShape(), i); };
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    float magnitude = std::fabs(getNumber(x, i));
    float &high = amax[find(i)], &low = least[find(i)];
    if (magnitude != 0.0f && !(magnitude >= low))
      low = magnitude;
    if (!(magnitude <= high) && !std::isnan(high))
      high = magnitude;
  }
  SmallVector<Codec::Factors> factors;
  for (int64_t i = 0; i < count; ++i) {
    factors.push_back(codec.choose(amax[i], least[i]));
    e.result(1)[i] = factors.back().scale;
    if (format.getExpand()) {
      e.result(2)[i] = factors.back().power;
      e.result(3)[i] = factors.back().centre;
    }
  }
  CodeWriter codes{codec, e.result(0), format.isPacked()};
  for (int64_t i = 0; i < x.getNumElements(); ++i)
    codes.set(i,
              codec.round(getNumber(x, i), factors[find(i)], op.getSaturate()));
}

static void evaluateDequantize(DequantizeOp op, Evaluation &e) {
  QuantizedAttr format = op.getFormat();
  Codec codec(format);
  Tensor &y = e.result();
  auto part = [&](unsigned index) -> const Tensor & {
    return e[op.getParts()[index]];
  };
  CodeReader codes{codec, part(0), format.isPacked()};
  for (int64_t i = 0; i < y.getNumElements(); ++i) {
    int64_t where = codec.findScale(y.getShape(), i);
    Codec::Factors factors;
    factors.scale = getNumber(part(1), where);
    if (format.getExpand()) {
      factors.power = getNumber(part(2), where);
      factors.centre = getNumber(part(3), where);
    }
    y[i] = codec.expand(codes[i], factors);
  }
}

static void evaluateChooseScale(ChooseScaleOp op, Evaluation &e) {
  Codec codec(op.getFormat());
  const Tensor &amax = e[op.getAmax()];
  for (int64_t i = 0; i < amax.getNumElements(); ++i) {
    float least = op.getLeast() ? getNumber(e[op.getLeast()], i) : 0.0f;
    Codec::Factors factors = codec.choose(getNumber(amax, i), least);
    e.result(0)[i] = factors.scale;
    e.result(1)[i] = factors.factor;
    if (op.getFormat().getExpand()) {
      e.result(2)[i] = factors.power;
      e.result(3)[i] = factors.centre;
    }
  }
}

static void evaluateEncode(EncodeOp op, Evaluation &e) {
  Codec codec(op.getFormat());
  const Tensor &x = e[op.getX()];
  CodeWriter codes{codec, e.result(), /*isPacked=*/false};
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    int64_t where = codec.findScale(x.getShape(), i);
    Codec::Factors factors;
    factors.factor = getNumber(e[op.getFactor()], where);
    if (op.getFormat().getExpand()) {
      factors.power = getNumber(e[op.getExpansion()[0]], where);
      factors.centre = getNumber(e[op.getExpansion()[1]], where);
    }
    codes.set(i, codec.round(getNumber(x, i), factors, op.getSaturate()));
  }
}

void mlir::binade::addQuantization(Reference &reference) {
  reference.add<QuantizeOp>(evaluateQuantize);
  reference.add<DequantizeOp>(evaluateDequantize);
  reference.add<ChooseScaleOp>(evaluateChooseScale);
  reference.add<EncodeOp>(evaluateEncode);
}
