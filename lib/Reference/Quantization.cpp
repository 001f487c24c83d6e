//===- Quantization.cpp - Quantize, dequantize and their parts ------------===//

#include "Families.h"
#include "Random.h"
#include "binade/IR/CorrectedBlocks.h"
#include "binade/Reference/Codec.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

namespace {
/// The quantized elements of a tensor: of a float format, or raw bytes, which
/// may contain two elements each.
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

/// Adds element i + 8 to element i, and the same with 4, 2 and 1.
static float addByTree(std::array<float, 16> rows) {
  for (size_t half = rows.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i)
      rows[i] += rows[i + half];
  return rows.front();
}

/// Chooses the scales of blocks by rule `rounded_four_six`.
static SmallVector<Codec::Factors>
chooseBetterScales(const Codec &codec, QuantizedAttr format,
                   ArrayRef<int64_t> shape, ArrayRef<double> numbers,
                   ArrayRef<float> amax, float whole, float tensorFactor) {
  constexpr float kToSix = 1.0f, kToFour = 1.5f;
  SmallVector<Codec::Factors> best;
  std::vector<float> errors;
  for (float stretch : {kToSix, kToFour}) {
    SmallVector<Codec::Factors> tried = llvm::map_to_vector(amax, [&](float a) {
      return codec.chooseStretched(a, tensorFactor, stretch);
    });
    std::vector<std::array<float, 16>> rows(amax.size());
    int64_t columns = shape.empty() ? 1 : shape.back();
    int64_t height = shape.size() < 2 ? 1 : shape[shape.size() - 2];
    for (auto [i, number] : llvm::enumerate(numbers)) {
      int64_t where = codec.findScale(shape, i);
      // A column is added like a row.
      int64_t row = format.getExtent()[1] == 1
                        ? 0
                        : int64_t(i) / columns % height % format.getExtent()[0];
      rows[where][row] += codec.findSquaredError(static_cast<float>(number),
                                                 tried[where], whole);
    }
    for (auto [i, row] : llvm::enumerate(rows)) {
      float error = addByTree(row);
      if (best.size() <= i) {
        best.push_back(tried[i]);
        errors.push_back(error);
      } else if (error < errors[i]) {
        best[i] = tried[i];
      }
    }
  }
  return best;
}

/// Returns the scales of blocks after the correction by rule `rounded_eden`.
static std::vector<float>
correctScales(const Codec &codec, QuantizedAttr format, ArrayRef<int64_t> shape,
              ArrayRef<double> numbers, ArrayRef<Codec::Factors> factors,
              float tensorFactor, llvm::function_ref<float(int64_t)> draw) {
  constexpr int64_t kSize = QuantizedAttr::kCorrectedBlocks;
  std::vector<float> wanted(factors.size(), 0.0f), found(factors.size(), 0.0f);
  for (auto [i, number] : llvm::enumerate(numbers)) {
    int64_t where = codec.findScale(shape, i);
    auto x = static_cast<float>(number);
    float exact = x * tensorFactor;
    float rounded =
        codec.round(x, factors[where], /*saturate=*/true, /*random=*/0.0f) *
        factors[where].scale;
    wanted[where] += exact * exact;
    found[where] += exact * rounded;
  }
  CorrectedBlocks blocks(format, format.getScaleShape(shape));
  std::vector<float> corrected;
  for (int64_t where = 0; where < int64_t(factors.size()); ++where) {
    int64_t along = where / blocks.inner % blocks.count;
    int64_t first = along - along % kSize;
    std::array<float, 16> all{}, kept{};
    for (int64_t i = 0; i < std::min(kSize, blocks.count - first); ++i) {
      int64_t other = where + (first + i - along) * blocks.inner;
      all[i] = wanted[other];
      kept[i] = found[other];
    }
    float correction = addByTree(all) / addByTree(kept);
    if (!std::isfinite(correction))
      correction = 1.0f;
    corrected.push_back(codec.roundScaleRandomly(
        factors[where].scale * correction, draw(where)));
  }
  return corrected;
}

/// If a magnitude is NaN, so is the largest one.
SmallVector<Tensor> mlir::binade::quantize(QuantizedAttr format,
                                           ArrayRef<int64_t> shape,
                                           ArrayRef<double> numbers,
                                           bool saturate,
                                           function_ref<float(int64_t)> draw,
                                           std::optional<float> given) {
  Codec codec(format);
  SmallVector<Tensor> parts;
  for (RankedTensorType type : format.getParts(shape))
    parts.emplace_back(type);
  int64_t count = parts[1].getNumElements();
  std::vector<float> amax(count, 0.0f), least(count, INFINITY);
  for (auto [i, number] : llvm::enumerate(numbers)) {
    float magnitude = std::fabs(codec.takeRoot(static_cast<float>(number)));
    int64_t where = codec.findScale(shape, i);
    float &high = amax[where], &low = least[where];
    if (magnitude != 0.0f && !(magnitude >= low))
      low = magnitude;
    if (!(magnitude <= high) && !std::isnan(high))
      high = magnitude;
  }
  if (given)
    amax.assign(count, *given);
  float tensorFactor = 1.0f;
  float whole = 0.0f; // The largest magnitude of the tensor, or NaN.
  if (format.getTensorScale()) {
    for (float magnitude : amax)
      if (!(magnitude <= whole) && !std::isnan(whole))
        whole = magnitude;
    tensorFactor = codec.chooseTensorFactor(whole);
    parts.back()[0] = 1.0f / tensorFactor;
  }
  SmallVector<Codec::Factors> factors;
  if (format.comparesScales())
    factors = chooseBetterScales(codec, format, shape, numbers, amax, whole,
                                 tensorFactor);
  for (int64_t i = 0; i < count; ++i) {
    if (!format.comparesScales())
      factors.push_back(codec.choose(amax[i], least[i], tensorFactor));
    parts[1][i] = factors[i].scale;
    if (format.getExpand()) {
      parts[2][i] = factors[i].power;
      parts[3][i] = factors[i].centre;
    }
  }
  if (format.correctsScales())
    llvm::copy(correctScales(codec, format, shape, numbers, factors,
                             tensorFactor, draw),
               parts[1].getFloats().begin());
  CodeWriter codes{codec, parts[0], format.isPacked()};
  for (auto [i, number] : llvm::enumerate(numbers))
    codes.set(i, codec.round(codec.takeRoot(static_cast<float>(number)),
                             factors[codec.findScale(shape, i)], saturate,
                             format.getStochastic() ? draw(i) : 0.0f));
  return parts;
}

std::vector<double> mlir::binade::dequantize(QuantizedAttr format,
                                             ArrayRef<int64_t> shape,
                                             ArrayRef<const Tensor *> parts) {
  Codec codec(format);
  CodeReader codes{codec, *parts[0], format.isPacked()};
  std::vector<double> numbers(ShapedType::getNumElements(shape));
  for (auto [i, number] : llvm::enumerate(numbers)) {
    int64_t where = codec.findScale(shape, i);
    Codec::Factors factors;
    factors.scale = getNumber(*parts[1], where);
    if (format.getExpand()) {
      factors.power = getNumber(*parts[2], where);
      factors.centre = getNumber(*parts[3], where);
    }
    if (format.getTensorScale())
      factors.tensor = getNumber(*parts[2], 0);
    number = codec.expand(codes[i], factors);
  }
  return numbers;
}

static void evaluateQuantize(QuantizeOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  auto draw = [&](int64_t index) {
    ArrayRef<int64_t> rng = e[op.getRng()].getIntegers();
    return drawElement(index, rng[0], rng[1], *op.getStream());
  };
  std::optional<float> amax;
  if (op.getAmax())
    amax = getNumber(e[op.getAmax()], 0);
  SmallVector<Tensor> parts =
      quantize(op.getFormat(), x.getShape(), x.getFloats(), op.getSaturate(),
               draw, amax);
  for (auto [index, part] : llvm::enumerate(parts))
    e.result(index) = std::move(part);
}

static void evaluateDequantize(DequantizeOp op, Evaluation &e) {
  SmallVector<const Tensor *> parts =
      llvm::map_to_vector(op.getParts(), [&](Value part) { return &e[part]; });
  Tensor &y = e.result();
  llvm::copy(dequantize(op.getFormat(), y.getShape(), parts),
             y.getFloats().begin());
}

static void evaluateGroupMax(GroupMaxOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  Tensor &y = e.result();
  auto size = static_cast<int64_t>(op.getSize());
  bool isInRows = static_cast<int64_t>(op.getAxis()) == -1;
  int64_t columns = isInRows ? 1 : x.getShape().back();
  llvm::fill(y.getFloats(), -INFINITY);
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    int64_t group = i / (size * columns) * columns + i % columns;
    if (double &most = y[group]; x[i] > most || std::isnan(x[i]))
      most = x[i];
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
      factors.power = getNumber(e[op.getRest()[0]], where);
      factors.centre = getNumber(e[op.getRest()[1]], where);
    }
    float random = op.getFormat().getStochastic()
                       ? getNumber(e[op.getRest().back()], i)
                       : 0.0f;
    codes.set(i,
              codec.round(getNumber(x, i), factors, op.getSaturate(), random));
  }
}

void mlir::binade::addQuantization(Reference &reference) {
  reference.add<QuantizeOp>(evaluateQuantize);
  reference.add<DequantizeOp>(evaluateDequantize);
  reference.add<GroupMaxOp>(evaluateGroupMax);
  reference.add<ChooseScaleOp>(evaluateChooseScale);
  reference.add<EncodeOp>(evaluateEncode);
}
