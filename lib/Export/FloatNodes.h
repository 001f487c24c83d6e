//===- FloatNodes.h - ONNX nodes of correctly rounded f32 -------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_FLOATNODES_H
#define BINADE_LIB_EXPORT_FLOATNODES_H

#include "OnnxWriter.h"

namespace mlir::binade::convert {

/// Writes f32 operations that are rounded once, including those that ONNX
/// lacks: `fma` and the bit fields of a float. Names are those of f64 tensors
/// with f32 values: products of two are exact in f64, and an f64 sum, quotient
/// or root, rounded to f32, equals the f32 result (Figueroa, "When is double
/// rounding innocuous?").
class FloatNodes {
public:
  explicit FloatNodes(OnnxWriter &w) : w(w) {}

  std::string widen(const std::string &x) {
    return w.cast(x, w.b.getF64Type());
  }
  std::string narrow(const std::string &x) {
    return w.cast(x, w.b.getF32Type());
  }
  /// Rounds to the nearest f32 value.
  std::string round(const std::string &x) { return widen(narrow(x)); }

  const std::string &constant(double value) { return w.addDouble(value); }
  std::string compute(StringRef op, ArrayRef<std::string> inputs) {
    return round(w.add(op, inputs));
  }

  /// Builds x y + z, rounded once, if the sum is exact in f64.
  std::string addExactly(const std::string &x, const std::string &y,
                         const std::string &z) {
    return compute("Add", {w.add("Mul", {x, y}), z});
  }
  /// Builds x y + z, rounded once, if the result does not overflow f32.
  std::string fma(const std::string &x, const std::string &y,
                  const std::string &z);

  /// The bit fields of x >= 0: the unbiased exponent, which is -127 for
  /// subnormals, and 1.fraction. Infinity is 2^128.
  struct Fields {
    std::string exponent, fraction;
  };
  Fields split(const std::string &x);
  /// Builds 2^n for integers n up to 127; 0 below -126.
  std::string raiseTwo(const std::string &n);
  /// Returns the largest power of two that is not larger than x, which is
  /// positive.
  std::string getUnit(const std::string &x) {
    return ScaleNodes(w).addUnit("", x);
  }

private:
  OnnxWriter &w;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_FLOATNODES_H
