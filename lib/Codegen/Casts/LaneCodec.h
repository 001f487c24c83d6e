//===- LaneCodec.h - Quantization and dequantization of lanes ---*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_CASTS_LANECODEC_H
#define BINADE_LIB_CODEGEN_CASTS_LANECODEC_H

#include "../Lanes.h"
#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Quantizes lanes of f32 to a `#binade.quantized` format, whose elements are
/// i8 (i16 for f16), and dequantizes them.
class LaneCodec {
public:
  /// Looks up elements of tables.
  struct Lookup {
    /// Returns the elements of a constant vector at the indices of an i32 or of
    /// lanes of i32.
    llvm::function_ref<Value(DenseElementsAttr, Value)> load;
    /// Whether tables of up to 16 elements are in registers.
    bool hasRegisters;

    Value operator()(DenseElementsAttr table, Value index) const {
      return load(table, index);
    }
  };

  explicit LaneCodec(QuantizedAttr format) : format(format) {}

  /// The factors, in f32, that elements with a common scale share.
  struct Factors {
    FloatLanes scale;  ///< The stored scale.
    FloatLanes factor; ///< The divisor (or multiplier) of elements.
    std::optional<FloatLanes> power, centre; ///< Range expansion only.
    std::optional<FloatLanes> tensor;        ///< The scale of the tensor.
  };
  /// Returns the factors from the stored ones: a scale and, with range
  /// expansion, power and centre, or the scale of the tensor.
  static Factors makeFactors(ArrayRef<FloatLanes> parts);
  /// Chooses the factors for a group whose largest magnitude is `amax`.
  /// `least`, its smallest nonzero magnitude, is used by range expansion.
  Factors choose(FloatLanes amax, std::optional<FloatLanes> least) const;

  /// Values derived from factors, once for all elements that share them.
  using Shared = SmallVector<FloatLanes, 4>;
  /// Returns the values that `encode` needs. They depend on all of `factors`
  /// but `scale`. Set `isMeasured` if the factors were computed from the very
  /// elements to encode, none of which is far out of the format's range then;
  /// `isGuarded` if `encode` is only called with a factor that `isDivisor`
  /// accepts.
  Shared prepareEncoding(const Factors &factors, bool isMeasured,
                         bool isGuarded = false) const;
  /// Whether `encode` divides by a factor.
  bool divides() const;
  /// Returns the size of the result of `prepareEncoding` with `isMeasured`.
  unsigned countEncodingNumbers() const;
  /// Returns the values that `decode` needs. They depend on all of `factors`
  /// but `factor`.
  Shared prepareDecoding(const Factors &factors) const;

  /// Quantizes `x`. If `shared` is empty, `x` has been divided by the factor
  /// already. `random`, uniform in [0, 1), is required if the format rounds
  /// stochastically.
  IntLanes encode(FloatLanes x, ArrayRef<FloatLanes> shared, bool saturate,
                  Lookup lookup, std::optional<FloatLanes> random = {}) const;
  /// Dequantizes `code` to f32.
  FloatLanes decode(IntLanes code, ArrayRef<FloatLanes> shared,
                    Lookup lookup) const;

private:
  FloatLanes chooseScale(FloatLanes amax) const;
  FloatLanes store(FloatLanes scale) const;

  QuantizedAttr format;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_LANECODEC_H
