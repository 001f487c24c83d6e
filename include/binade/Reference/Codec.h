//===- Codec.h - Quantized formats, by element ------------------*- C++ -*-===//

#ifndef BINADE_REFERENCE_CODEC_H
#define BINADE_REFERENCE_CODEC_H

#include "binade/IR/Binade.h"
#include "binade/Reference/FloatFormat.h"
#include "binade/Reference/Tensor.h"

namespace mlir::binade {

/// Implements `#binade.quantized` in f32, element by element.
class Codec {
public:
  explicit Codec(QuantizedAttr format);

  /// The values that elements with a shared scale have in common.
  struct Factors {
    float scale = 0.0f;  ///< In the storage format.
    float factor = 0.0f; ///< Elements are divided by it, or multiplied,
                         ///< depending on the scale rule.
    float power = 1.0f, centre = 1.0f;
    float tensor = 1.0f; ///< The scale of the tensor.
  };
  /// Returns the factor whose inverse is the scale of a tensor with largest
  /// magnitude `amax`. The format has a scale of the tensor.
  float chooseTensorFactor(float amax) const;

  /// Returns the factors of a group with largest magnitude `amax`. `least`, the
  /// smallest nonzero magnitude, matters only for formats with range expansion.
  Factors choose(float amax, float least, float tensorFactor = 1.0f) const;

  /// The factors of a group by rule `rounded_four_six` if its largest magnitude
  /// becomes 6 divided by `stretch`.
  Factors chooseStretched(float amax, float tensorFactor, float stretch) const;
  /// Returns the squared error of element `x` by that rule. `whole` is the
  /// largest magnitude of the tensor.
  float findSquaredError(float x, const Factors &factors, float whole) const;

  /// Rounds a scale to its format, up if `random` is less than the fraction of
  /// the distance from the next smaller one.
  float roundScaleRandomly(float scale, float random) const {
    return static_cast<float>(
        stored.roundRandomly(scale, random, /*saturate=*/true));
  }

  /// Returns the value that is measured and rounded for an element: `x`, or its
  /// square root.
  float takeRoot(float x) const;

  /// Rounds `x` to a quantized value before scaling, and the inverse of that.
  /// The inverse reads `scale`, `power` and `centre` of the factors. `random`,
  /// in [0, 1), is for stochastic rounding.
  float round(float x, const Factors &factors, bool saturate,
              float random) const;
  float expand(float number, const Factors &factors) const;

  /// Convert between a quantized value before scaling and its bits.
  int64_t encode(float number) const;
  float decode(int64_t code) const;

  /// Returns the index of the scale of element `index` in a tensor of `shape`.
  int64_t findScale(ArrayRef<int64_t> shape, int64_t index) const;

private:
  float chooseScale(float amax) const;
  Factors chooseBlock(float amax, float tensorFactor) const;
  float roundScale(float scale) const;
  float roundInBook(float y, float random) const;

  QuantizedAttr format;
  std::optional<FloatFormat> element; ///< None for code books.
  FloatFormat stored;                 ///< The format of scales.
  float largest, bound;
  SmallVector<float> values, thresholds; ///< Of the code book.
};

/// Quantizes `numbers`, the f32 elements of a tensor of `shape`. Returns the
/// parts of `format`. `draw` returns the random value of an element; `amax`
/// replaces the largest magnitude.
SmallVector<Tensor> quantize(QuantizedAttr format, ArrayRef<int64_t> shape,
                             ArrayRef<double> numbers, bool saturate,
                             function_ref<float(int64_t)> draw,
                             std::optional<float> amax = {});

/// Returns the elements of a quantized tensor of `shape`.
std::vector<double> dequantize(QuantizedAttr format, ArrayRef<int64_t> shape,
                               ArrayRef<const Tensor *> parts);

} // namespace mlir::binade

#endif // BINADE_REFERENCE_CODEC_H
