//===- LaneCodec.h - elements as codes with a shared scale ------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_CASTS_LANECODEC_H
#define BINADE_LIB_CODEGEN_CASTS_LANECODEC_H

#include "../Lanes.h"
#include "binade/IR/Binade.h"

namespace mlir::binade {

/// `#binade.quantized` on lanes: f32 numbers to codes in i8 and back.
class LaneCodec {
public:
  /// Gives the element of a constant table, a vector of numbers, that each lane
  /// of an i32 names.
  using Lookup = llvm::function_ref<Value(DenseElementsAttr, Value)>;

  explicit LaneCodec(QuantizedAttr format) : format(format) {}

  /// What the elements that share a scale have in common, in f32.
  struct Factors {
    FloatLanes scale;  ///< As it is stored.
    FloatLanes factor; ///< Elements are divided by it, or multiplied.
    std::optional<FloatLanes> power, centre; ///< Of formats that expand.
  };
  /// From the parts that are stored: a scale, and of formats that expand power
  /// and centre.
  static Factors makeFactors(ArrayRef<FloatLanes> parts);
  /// `least` matters to formats that expand.
  Factors choose(FloatLanes amax, std::optional<FloatLanes> least) const;

  /// What follows from factors, once for all elements that share them.
  using Shared = SmallVector<FloatLanes, 4>;
  /// What `encode` takes, from `factors` but for `scale`. With `isMeasured`
  /// they follow from the very elements, of which none is far beyond them.
  Shared prepareEncoding(const Factors &factors, bool isMeasured) const;
  /// Whether `encode` divides by a factor that is no power.
  bool divides() const;
  /// As many it is with `isMeasured`.
  unsigned countEncodingNumbers() const;
  /// What `decode` takes, from `factors` but for `factor`.
  Shared prepareDecoding(const Factors &factors) const;

  /// Without `shared`, `x` is divided already. `random`, uniform in [0, 1),
  /// where the format is stochastic.
  IntLanes encode(FloatLanes x, ArrayRef<FloatLanes> shared, bool saturate,
                  Lookup lookup, std::optional<FloatLanes> random = {}) const;
  FloatLanes decode(IntLanes code, ArrayRef<FloatLanes> shared,
                    Lookup lookup) const;

private:
  FloatLanes chooseScale(FloatLanes amax) const;
  FloatLanes store(FloatLanes scale) const;

  QuantizedAttr format;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_CASTS_LANECODEC_H
