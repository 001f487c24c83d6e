//===- LaneCodec.h - elements as codes with a shared scale ------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERSION_LANECODEC_H
#define BINADE_LIB_CONVERSION_LANECODEC_H

#include "Lanes.h"
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
  /// `least` matters to formats that expand.
  Factors choose(FloatLanes amax, std::optional<FloatLanes> least) const;

  /// `factors` but for `scale`; `random`, uniform in [0, 1), where the format
  /// is stochastic.
  IntLanes encode(FloatLanes x, const Factors &factors, bool saturate,
                  Lookup lookup, std::optional<FloatLanes> random = {}) const;
  /// `factors` but for `factor`.
  FloatLanes decode(IntLanes code, const Factors &factors, Lookup lookup) const;

private:
  FloatLanes chooseScale(FloatLanes amax) const;
  FloatLanes store(FloatLanes scale) const;

  QuantizedAttr format;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CONVERSION_LANECODEC_H
