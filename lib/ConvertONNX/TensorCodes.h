//===- TensorCodes.h - Quantization of stored tensors -----------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_TENSORCODES_H
#define BINADE_LIB_CONVERTONNX_TENSORCODES_H

#include "Blocks.h"
#include "binade/Container/FloatConversion.h"
#include "binade/Reference/Codec.h"
#include <span>

namespace mlir::binade::convert {

/// Quantizes one tensor, which is read piece by piece, to E4M3 or E5M2.
class TensorCodes {
public:
  /// The element format of `format` must be E4M3 or E5M2. If blocks have
  /// several rows, `shape` must have two axes.
  TensorCodes(const QuantizedInput &format, ArrayRef<int64_t> shape);

  /// Whether the tensor has one scale, so that all elements have to be measured
  /// before `encode`.
  bool isMeasured() const { return format.block.empty(); }
  void measure(std::span<const float> values);

  /// The number of elements of which `encode` takes a multiple, or all
  /// remaining elements.
  size_t getBand() const { return std::max<size_t>(columns * rows, 1); }
  void encode(std::span<const float> values, char *codes);

  /// The scales; those of tiles are repeated for each row.
  ArrayRef<float> getScales() const { return scales; }
  ArrayRef<int64_t> getScaleShape() const { return scaleShape; }

private:
  static uint32_t getMagnitude(float value);
  void choose();
  char encode(float value, const Codec::Factors &factors) const;
  void encodeBand(std::span<const float> band, char *codes);

  QuantizedInput format;
  Codec codec;
  ::binade::ByteFormat element;
  float most; ///< The largest value of `element`.
  /// Whether elements are multiplied by the factor, or divided.
  bool multiplies;
  size_t columns = 1;         ///< Columns of the tensor.
  size_t rows = 1, width = 1; ///< The extents of a block.
  /// The largest magnitudes of the blocks of a band, as bits.
  std::vector<uint32_t> largest;
  std::vector<Codec::Factors> factors;
  std::vector<float> scales;
  SmallVector<int64_t> scaleShape;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_TENSORCODES_H
