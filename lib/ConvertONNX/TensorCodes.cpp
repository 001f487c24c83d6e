//===- TensorCodes.cpp - Quantization of stored tensors -------------------===//

#include "TensorCodes.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <bit>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

TensorCodes::TensorCodes(const QuantizedInput &format, ArrayRef<int64_t> shape)
    : format(format), codec(format.format),
      element(isa<Float8E4M3FNType>(format.format.getFormat())
                  ? ::binade::kE4M3
                  : ::binade::kE5M2),
      most(format.format.getLargest()),
      multiplies(format.format.getRule() == ScaleRule::Inverse ||
                 format.format.getRule() == ScaleRule::InversePower),
      scaleShape(shape) {
  if (isMeasured()) {
    scaleShape.clear();
    largest.resize(1);
    return;
  }
  columns = shape.back();
  width = format.block.back();
  if (shape.size() > 1)
    rows = std::min(format.block[shape.size() - 2], shape[shape.size() - 2]);
  int64_t axis = format.getAxis();
  scaleShape[axis] = llvm::divideCeil(shape[axis], format.block[axis]);
}

void TensorCodes::measure(std::span<const float> values) {
  for (float value : values)
    largest[0] = std::max(largest[0], getMagnitude(value));
}

/// Returns the bits of |value|, which are ordered like magnitudes; NaN is the
/// largest.
uint32_t TensorCodes::getMagnitude(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7fffffff;
}

/// Computes the scale factors from the measured magnitudes.
void TensorCodes::choose() {
  factors.clear();
  for (uint32_t bits : largest)
    factors.push_back(codec.choose(std::bit_cast<float>(bits), 0.0f));
}

/// Quantizes with saturation, also of infinities.
char TensorCodes::encode(float value, const Codec::Factors &factors) const {
  float y = multiplies ? value * factors.factor : value / factors.factor;
  return ::binade::floatToByte(std::clamp(y, -most, most), element);
}

void TensorCodes::encodeBand(std::span<const float> band, char *codes) {
  largest.assign(llvm::divideCeil(columns, width), 0);
  for (size_t row = 0; row < band.size(); row += columns)
    for (size_t column = 0; column < columns; ++column) {
      uint32_t &block = largest[column / width];
      block = std::max(block, getMagnitude(band[row + column]));
    }
  choose();
  for (size_t row = 0; row < band.size(); row += columns)
    for (size_t column = 0; column < columns; ++column)
      codes[row + column] = encode(band[row + column], factors[column / width]);
  size_t copies = format.isTile() ? band.size() / columns : 1;
  for (size_t copy = 0; copy < copies; ++copy)
    for (const Codec::Factors &block : factors)
      scales.push_back(block.scale);
}

void TensorCodes::encode(std::span<const float> values, char *codes) {
  if (isMeasured()) {
    choose();
    scales = {factors[0].scale};
    std::transform(values.begin(), values.end(), codes,
                   [&](float x) { return encode(x, factors[0]); });
    return;
  }
  size_t size = getBand();
  for (size_t start = 0; start < values.size(); start += size)
    encodeBand(values.subspan(start, std::min(size, values.size() - start)),
               codes + start);
}
