//===- Codes.h - ONNX nodes of scaled formats -------------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_CODES_H
#define BINADE_LIB_EXPORT_CODES_H

#include "ExpansionNodes.h"

namespace mlir::binade::convert {

/// Writes quantization by a `#binade.quantized` format for tensors of one
/// shape, with nodes that compute the same values as the reference's `Codec`.
/// Names are those of f32 tensors unless stated otherwise.
class Codes {
public:
  Codes(OnnxWriter &w, QuantizedAttr format, ArrayRef<int64_t> shape);

  /// Whether ONNX has a type for the stored codes.
  bool hasType() const { return getElementNumber(format.getCodeType()); }

  /// The factors of each group of elements. `power` and `centre` are set if the
  /// format has `expand`.
  struct Factors {
    std::string scale;
    /// Elements are divided or multiplied by it, by the scale rule.
    std::string factor;
    std::string power, centre;
    std::string tensorScale = {}; ///< Empty without a scale of the tensor.
  };
  Factors choose(const std::string &largest, const std::string &least);
  /// Returns the factors of blocks with scales in E4M3, or below the scale of
  /// a tensor with the largest magnitude `tensor`, as `chooseBlockScales`
  /// builds them.
  Factors chooseBlocks(const std::string &largest, const std::string &tensor);
  /// Returns the factors that have the smaller error of `x`, as
  /// `chooseBetterScales` builds them.
  Factors chooseBetter(const std::string &x, const std::string &largest,
                       const std::string &tensor);

  /// Returns the scales after the correction, as the op `quantize` computes
  /// them: `factors` are those by which the elements `x` are rounded, and
  /// `random` has the random number of each scale.
  std::string correctScales(const std::string &x, const Factors &factors,
                            const std::string &tensor,
                            const std::string &random);

  /// Returns one code per element, of the code's type. `random` has uniform
  /// values for stochastic rounding.
  std::string encode(const std::string &x, const Factors &factors,
                     bool saturate, const std::string &random);

  /// Returns all parts of a quantized tensor, with codes in their type. Scales
  /// are computed from `largest`, or from the largest magnitudes if it
  /// is empty. `random` has a value for each element, or for each scale if
  /// these are corrected.
  SmallVector<std::string> quantize(const std::string &given, bool saturate,
                                    const std::string &random,
                                    const std::string &largest);
  std::string dequantize(ArrayRef<std::string> parts);

private:
  std::string reshape(const std::string &x, ArrayRef<int64_t> from,
                      ArrayRef<int64_t> to) {
    return from == to ? x : w.reshape(x, to);
  }
  std::string encodeCompanded(std::string y);
  std::string decodeCompanded(const std::string &codes);
  std::string limit(const std::string &x, double limit);
  std::string chooseTensorFactor(const std::string &tensor);
  std::string invert(const Factors &factors);
  std::string findSquares(const std::string &x, const Factors &factors,
                          const std::string &tensor);
  std::string addHalves(std::string x, SmallVector<int64_t> now, int64_t axis);
  std::string addInOrder(std::string x);
  std::string arrange(const std::string &x);
  std::string restore(const std::string &x);
  /// Reshapes a tensor with one element per scale so that it broadcasts over
  /// arranged elements.
  std::string spread(const std::string &factor) {
    return reshape(factor, scaleShape, spreadShape);
  }

  ExpansionNodes::Shared spread(const Factors &factors) {
    return {spread(factors.power), spread(factors.centre)};
  }

  std::string search(const std::string &x, ArrayRef<float> thresholds);
  std::string encodeInBook(const std::string &y, const std::string &random);
  std::string encodeSmall(const std::string &y, const std::string &exact);
  std::string pack(const std::string &codes);
  std::string unpack(const std::string &codes);
  std::string decode(const std::string &codes);
  std::string findLogarithm(const std::string &codes,
                            const std::string &number);

  OnnxWriter &w;
  QuantizedAttr format;
  SmallVector<int64_t> shape;
  /// The shape to pad, the padded shape, and the padded shape with separate
  /// axes for the elements of a group.
  SmallVector<int64_t> flat, padded, arranged;
  /// The axes of `arranged` that share a scale.
  SmallVector<int64_t> sharedAxes;
  SmallVector<int64_t> scaleShape, spreadShape;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_CODES_H
