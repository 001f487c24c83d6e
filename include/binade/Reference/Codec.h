//===- Codec.h - elements as codes with a shared scale ----------*- C++ -*-===//

#ifndef BINADE_REFERENCE_CODEC_H
#define BINADE_REFERENCE_CODEC_H

#include "binade/IR/Binade.h"
#include "binade/Reference/FloatFormat.h"
#include "binade/Reference/Tensor.h"

namespace mlir::binade {

/// `#binade.quantized`, element by element, in f32 as that says.
class Codec {
public:
  explicit Codec(QuantizedAttr format);

  /// What the elements that share a scale have in common.
  struct Factors {
    float scale = 0.0f;  ///< As it is stored.
    float factor = 0.0f; ///< Elements are divided by it, or multiplied.
    float power = 1.0f, centre = 1.0f;
  };
  /// `least` matters to formats that expand.
  Factors choose(float amax, float least) const;

  /// The number that a code stands for before it is scaled, and the other way
  /// around, where `scale`, `power` and `centre` matter.
  /// `random`, in [0, 1), is for stochastic formats.
  float round(float x, const Factors &factors, bool saturate,
              float random) const;
  float expand(float number, const Factors &factors) const;

  /// The bits of a code, and their number.
  int64_t encode(float number) const;
  float decode(int64_t code) const;

  /// Which scale element `index` of a tensor of `shape` has.
  int64_t findScale(ArrayRef<int64_t> shape, int64_t index) const;

private:
  float chooseScale(float amax) const;
  float roundInBook(float y, float random) const;

  QuantizedAttr format;
  std::optional<FloatFormat> element; ///< None for code books.
  FloatFormat stored;                 ///< Of scales.
  float largest, bound;
  SmallVector<float> values, thresholds; ///< Of the code book.
};

/// The parts that `format` keeps of `numbers`, elements of a tensor of `shape`,
/// which are f32. `draw` gives the random number of an element; `amax` takes
/// the place of the largest magnitude.
SmallVector<Tensor> quantize(QuantizedAttr format, ArrayRef<int64_t> shape,
                             ArrayRef<double> numbers, bool saturate,
                             function_ref<float(int64_t)> draw,
                             std::optional<float> amax = {});

/// The inverse.
std::vector<double> dequantize(QuantizedAttr format, ArrayRef<int64_t> shape,
                               ArrayRef<const Tensor *> parts);

} // namespace mlir::binade

#endif // BINADE_REFERENCE_CODEC_H
