//===- TensorCodes.h - Stored numbers become codes --------------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_TENSORCODES_H
#define BINADE_LIB_CONVERTONNX_TENSORCODES_H

#include "Blocks.h"
#include "binade/Container/FloatConversion.h"
#include "binade/Reference/Codec.h"
#include <span>

namespace mlir::binade::convert {

/// The codes and scales of one tensor, which is read piece by piece.
class TensorCodes {
public:
  /// Codes of `format` are E4M3 or E5M2. Blocks of more than one row are those
  /// of matrices: `shape` has two axes then.
  TensorCodes(const QuantizedInput &format, ArrayRef<int64_t> shape);

  /// Where one scale is for all, all elements are measured first.
  bool isMeasured() const { return format.block.empty(); }
  void measure(std::span<const float> values);

  /// `encode` gets a multiple of so many elements, or all that are left.
  size_t getBand() const { return std::max<size_t>(columns * rows, 1); }
  void encode(std::span<const float> values, char *codes);

  /// Those of tiles once for each row.
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
  float most;                 ///< The largest number of `element`.
  bool multiplies;            ///< Whether elements are multiplied, or divided.
  size_t columns = 1;         ///< Of the tensor.
  size_t rows = 1, width = 1; ///< Of a block.
  std::vector<uint32_t> largest; ///< Magnitudes, as bits, of blocks of a band.
  std::vector<Codec::Factors> factors;
  std::vector<float> scales;
  SmallVector<int64_t> scaleShape;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_TENSORCODES_H
