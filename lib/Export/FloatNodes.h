//===- FloatNodes.h - Rounded operations of f32, as nodes -------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_FLOATNODES_H
#define BINADE_LIB_EXPORT_FLOATNODES_H

#include "OnnxWriter.h"

namespace mlir::binade::convert {

/// Operations of f32, each rounded once, also those that ONNX lacks: `fma` and
/// the parts of a number. Names are those of f64 tensors that hold numbers of
/// f32: a product of two is exact there, and the sum, quotient or root of f64,
/// rounded to f32, is the one of f32 (Figueroa, "When is double rounding
/// innocuous?").
class FloatNodes {
public:
  explicit FloatNodes(OnnxWriter &w) : w(w) {}

  std::string widen(const std::string &x) {
    return w.cast(x, w.b.getF64Type());
  }
  std::string narrow(const std::string &x) {
    return w.cast(x, w.b.getF32Type());
  }
  /// The nearest number of f32.
  std::string round(const std::string &x) { return widen(narrow(x)); }

  const std::string &constant(double value) { return w.addDouble(value); }
  std::string compute(StringRef op, ArrayRef<std::string> inputs) {
    return round(w.add(op, inputs));
  }

  /// x y + z where f64 holds the sum.
  std::string addExactly(const std::string &x, const std::string &y,
                         const std::string &z) {
    return compute("Add", {w.add("Mul", {x, y}), z});
  }
  /// x y + z, rounded once, where it is no more than the largest number of f32.
  std::string fma(const std::string &x, const std::string &y,
                  const std::string &z);

  /// The fields of a number's bits, where x is 0 or more: what its exponent
  /// stands for, -127 below the normal numbers, and 1.fraction. Infinity is
  /// 2^128.
  struct Fields {
    std::string exponent, fraction;
  };
  Fields split(const std::string &x);
  /// 2^n of an integer n up to 127; 0 below -126.
  std::string raiseTwo(const std::string &n);
  /// The largest power of two that is no more than x, which is positive.
  std::string getUnit(const std::string &x) {
    return ScaleNodes(w).addUnit("", x);
  }

private:
  OnnxWriter &w;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_FLOATNODES_H
