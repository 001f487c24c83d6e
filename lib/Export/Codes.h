//===- Codes.h - Codes with shared scales, as nodes -------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_CODES_H
#define BINADE_LIB_EXPORT_CODES_H

#include "ExpansionNodes.h"

namespace mlir::binade::convert {

/// `#binade.quantized` of a tensor of some shape, as nodes that have the
/// numbers of the reference's `Codec`. Names are those of f32 where nothing
/// else is said.
class Codes {
public:
  Codes(OnnxWriter &w, QuantizedAttr format, ArrayRef<int64_t> shape);

  /// Whether ONNX has a type for the codes.
  bool hasType() const { return getElementNumber(format.getCodeType()); }

  /// What the elements that share a scale have in common; the last two with
  /// `expand`.
  struct Factors {
    std::string scale;
    std::string factor; ///< Elements are divided by it, or multiplied.
    std::string power, centre;
  };
  Factors choose(const std::string &largest, const std::string &least);

  /// One code for each element, of the code's type. `random` is for stochastic
  /// formats.
  std::string encode(const std::string &x, const Factors &factors,
                     bool saturate, const std::string &random);

  /// All parts; codes in their type. Scales follow from `largest`, if given.
  SmallVector<std::string> quantize(const std::string &x, bool saturate,
                                    const std::string &random,
                                    const std::string &largest);
  std::string dequantize(ArrayRef<std::string> parts);

private:
  std::string reshape(const std::string &x, ArrayRef<int64_t> from,
                      ArrayRef<int64_t> to) {
    return from == to ? x : w.reshape(x, to);
  }
  std::string arrange(const std::string &x);
  std::string restore(const std::string &x);
  /// One number for each scale, beside arranged elements.
  std::string spread(const std::string &factor) {
    return reshape(factor, scaleShape, spreadShape);
  }

  ExpansionNodes::Shared spread(const Factors &factors) {
    return {spread(factors.power), spread(factors.centre)};
  }

  std::string search(const std::string &x, ArrayRef<float> thresholds);
  std::string encodeInBook(const std::string &y, const std::string &random);
  std::string encodeSmall(const std::string &y);
  std::string pack(const std::string &codes);
  std::string unpack(const std::string &codes);
  std::string decode(const std::string &codes);
  std::string findLogarithm(const std::string &codes,
                            const std::string &number);

  OnnxWriter &w;
  QuantizedAttr format;
  SmallVector<int64_t> shape;
  /// What is padded, behind its last elements, and that with axes of its own
  /// for what shares a scale.
  SmallVector<int64_t> flat, padded, arranged;
  SmallVector<int64_t> sharedAxes; ///< Of `arranged`.
  SmallVector<int64_t> scaleShape, spreadShape;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_CODES_H
