//===- Codec.cpp - Quantized formats, by element --------------------------===//

#include "binade/Reference/Codec.h"
#include "RangeExpansion.h"
#include "binade/IR/RangeExpansion.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

static constexpr float kMinNormal = 0x1p-126f;
/// The range of f16.
static constexpr float kMinHalf = 0x1p-24f, kMaxHalf = 65504.0f;
/// The offset that COAT adds to the largest magnitude of an activation.
static constexpr float kOffset = 1e-10f;

Codec::Codec(QuantizedAttr format)
    : format(format), stored(format.getScale().getFloatSemantics()),
      largest(static_cast<float>(format.getLargest())),
      bound(expansion::getBound(format)) {
  if (FloatType type = format.getFormat())
    element.emplace(type.getFloatSemantics());
  if (CodeBookAttr book = format.getBook()) {
    ArrayRef<float> numbers = book.getValues();
    values.assign(numbers.begin(), numbers.end());
    for (unsigned code = 0; code < values.size(); ++code)
      thresholds.push_back(book.getThreshold(code));
  }
}

/// Returns the power of two with the exponent field `field`, as scales use it:
/// 2^-127 for 0, NaN for 255.
static float getPower(int field) {
  return field == 255 ? NAN : std::ldexp(1.0f, field - 127);
}

float Codec::chooseScale(float amax) const {
  uint32_t bits = llvm::bit_cast<uint32_t>(amax);
  switch (format.getRule()) {
  case ScaleRule::Amax: {
    float scale = amax / largest;
    if (amax == 0.0f)
      return format.getScaleOfZeros();
    if (!format.getScale().isF16())
      return scale < kMinNormal ? kMinNormal : scale;
    bool isFinite = std::isfinite(amax);
    return isFinite ? std::clamp(scale, kMinHalf, kMaxHalf) : scale;
  }
  case ScaleRule::AmaxOffset:
    return (amax + kOffset) / largest;
  case ScaleRule::Inverse:
  case ScaleRule::InversePower: {
    if (amax == 0.0f || !std::isfinite(amax))
      return 1.0f;
    float inverse = static_cast<float>(format.getPeak()) / amax;
    if (std::isinf(inverse))
      inverse = std::numeric_limits<float>::max();
    if (format.getRule() == ScaleRule::InversePower)
      inverse = llvm::bit_cast<float>(llvm::bit_cast<uint32_t>(inverse) &
                                      0xff800000u);
    return inverse;
  }
  case ScaleRule::Floor: {
    int field = static_cast<int>(bits >> 23);
    return getPower(field == 255 ? 255
                                 : std::max(field - std::ilogb(largest), 0));
  }
  case ScaleRule::RoundUp: {
    bits = llvm::bit_cast<uint32_t>(amax * (1.0f / largest));
    int field = static_cast<int>(bits >> 23);
    uint32_t mantissa = bits & 0x7fffff;
    if (field == 255)
      return mantissa == 0 ? getPower(254) : getPower(255);
    bool isAbove = field == 0 ? mantissa > 0x400000 : mantissa > 0;
    return getPower(std::min(field + isAbove, 254));
  }
  case ScaleRule::RoundedInverse:
  case ScaleRule::RoundedHeadroom:
  case ScaleRule::RoundedFourSix:
  case ScaleRule::RoundedEden:
    break;
  }
  llvm_unreachable("all rules are listed");
}

/// The smaller of both; NaN if `x` is.
static float atMost(float x, float limit) { return x > limit ? limit : x; }

float Codec::chooseTensorFactor(float amax) const {
  float factor = atMost(static_cast<float>(format.getTensorPeak()) / amax,
                        std::numeric_limits<float>::max());
  return amax == 0.0f || factor == 0.0f ? 1.0f : factor;
}

/// Rounds a scale to its format.
float Codec::roundScale(float scale) const {
  constexpr float kMax = std::numeric_limits<float>::max();
  return static_cast<float>(
      stored.round(atMost(scale, kMax), /*saturate=*/true));
}

/// Returns the factors of a block with the stored scale `scale`.
static Codec::Factors invert(float scale, float tensorFactor) {
  constexpr float kMax = std::numeric_limits<float>::max();
  Codec::Factors factors;
  factors.tensor = 1.0f / tensorFactor;
  factors.scale = scale;
  factors.factor = atMost(1.0f / (factors.scale * factors.tensor), kMax);
  return factors;
}

/// Chooses the scale of a block in E4M3, or below the scale of a tensor.
Codec::Factors Codec::chooseBlock(float amax, float tensorFactor) const {
  if (!format.roundsScales())
    return invert(chooseScale(amax * tensorFactor), tensorFactor);
  float unit = tensorFactor * (1.0f / static_cast<float>(format.getPeak()));
  return invert(roundScale(amax * unit), tensorFactor);
}

Codec::Factors Codec::chooseStretched(float amax, float tensorFactor,
                                      float stretch) const {
  return invert(roundScale(amax / largest * tensorFactor * stretch),
                tensorFactor);
}

float Codec::findSquaredError(float x, const Factors &factors,
                              float whole) const {
  float rounded = round(x, factors, /*saturate=*/true, /*random=*/0.0f);
  float back = rounded * factors.scale * whole /
               static_cast<float>(format.getTensorPeak());
  float difference = back - x;
  return difference * difference;
}

Codec::Factors Codec::choose(float amax, float least,
                             float tensorFactor) const {
  if (format.hasBlockScales())
    return chooseBlock(amax, tensorFactor);
  Factors factors;
  if (format.getExpand()) {
    Expansion chosen = Expansion::choose(amax, least, bound);
    factors.power = chosen.power;
    factors.centre = chosen.centre;
    amax = chosen.expandLargest(amax);
  }
  float scale = chooseScale(amax);
  switch (format.getRule()) {
  case ScaleRule::Amax:
    factors.scale = static_cast<float>(stored.round(scale));
    factors.factor = format.getCompanded() ? scale : factors.scale;
    break;
  case ScaleRule::Inverse:
  case ScaleRule::InversePower:
    factors.factor = scale;
    factors.scale = static_cast<float>(stored.round(1.0f / scale));
    break;
  default:
    factors.factor = scale;
    factors.scale = static_cast<float>(stored.round(scale));
  }
  return factors;
}

float Codec::takeRoot(float x) const {
  return format.takesRoots() ? std::sqrt(x) : x;
}

/// Returns the integer for an element (or its root) divided by its scale.
static float compress(CompandedAttr companded, float u) {
  if (std::isnan(u))
    return 0.0f;
  float y = std::clamp(u, companded.isSigned() ? -1.0f : 0.0f, 1.0f);
  if (companded.hasSoftsign())
    y = 2.0f * y / (1.0f + std::fabs(y));
  return std::floor(y * static_cast<float>(companded.getLargestCode()) + 0.5f);
}

/// Returns the element (or its root) divided by its scale for an integer.
static float decompress(CompandedAttr companded, float code) {
  float t = code / static_cast<float>(companded.getLargestCode());
  return companded.hasSoftsign() ? t / (2.0f - std::fabs(t)) : t;
}

float Codec::roundInBook(float y, float random) const {
  // A code book has no code for NaN: the scale is NaN then.
  auto above = std::upper_bound(thresholds.begin() + 1, thresholds.end(), y);
  size_t nearest = above - thresholds.begin() - 1;
  if (!format.getStochastic())
    return values[nearest];
  size_t low = nearest - (nearest > 0 && values[nearest] > y ? 1 : 0);
  size_t high = std::min(low + 1, values.size() - 1);
  float way = (y - values[low]) / (values[high] - values[low]);
  return values[random < way ? high : low];
}

float Codec::round(float x, const Factors &factors, bool saturate,
                   float random) const {
  float y = format.multiplies() ? x * factors.factor : x / factors.factor;
  if (format.getExpand())
    y = Expansion{factors.power, factors.centre}.expand(x, factors.factor);
  if (CompandedAttr companded = format.getCompanded())
    return compress(companded, y);
  if (!element)
    return roundInBook(y, random);
  return static_cast<float>(format.getStochastic()
                                ? element->roundRandomly(y, random, saturate)
                                : element->round(y, saturate));
}

float Codec::expand(float number, const Factors &factors) const {
  if (CompandedAttr companded = format.getCompanded()) {
    float x = decompress(companded, number) * factors.scale;
    return companded.takesRoots() ? x * x : x;
  }
  if (!format.getExpand())
    return number * factors.scale * factors.tensor;
  float magnitude = std::fabs(number);
  // Kernels look up the logarithms of all quantized values except f16.
  float logarithm =
      element && element->width == 16
          ? findLogarithm(magnitude)
          : static_cast<float>(std::log2(static_cast<double>(magnitude)));
  return Expansion{factors.power, factors.centre}.contract(logarithm, number,
                                                           factors.scale);
}

int64_t Codec::encode(float number) const {
  if (element)
    return static_cast<int64_t>(element->encode(number));
  if (format.getCompanded())
    return static_cast<int8_t>(static_cast<int64_t>(number));
  return llvm::upper_bound(values, number) - values.begin() - 1;
}

float Codec::decode(int64_t code) const {
  if (CompandedAttr companded = format.getCompanded())
    return companded.isSigned() ? static_cast<int8_t>(code)
                                : static_cast<uint8_t>(code);
  if (!element)
    return values[code & (values.size() - 1)];
  return static_cast<float>(
      element->decode(code & ((int64_t(1) << element->width) - 1)));
}

int64_t Codec::findScale(ArrayRef<int64_t> shape, int64_t index) const {
  switch (format.getGranularity()) {
  case Granularity::PerTensor:
    return 0;
  case Granularity::PerRow:
    return shape.empty() ? 0 : index / shape.back();
  case Granularity::PerGroup:
    return index / format.getExtent().front();
  case Granularity::PerBlock: {
    int64_t columns = shape.empty() ? 1 : shape.back();
    int64_t rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
    int64_t row = index / columns, column = index % columns;
    ArrayRef<int64_t> extent = format.getExtent();
    int64_t down = llvm::divideCeil(rows, extent[0]);
    int64_t across = llvm::divideCeil(columns, extent[1]);
    return (row / rows * down + row % rows / extent[0]) * across +
           column / extent[1];
  }
  }
  llvm_unreachable("all granularities are listed");
}
