//===- ExpansionNodes.h - ONNX nodes of range expansion ---------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_EXPANSIONNODES_H
#define BINADE_LIB_EXPORT_EXPANSIONNODES_H

#include "FloatNodes.h"

namespace mlir::binade::convert {

/// Writes range expansion (`expand` of `#binade.quantized`) by the operations
/// that define it (docs/decisions/0058-range-expansion-bits.md), with the same
/// bits as lib/Reference/RangeExpansion.cpp. Names are those of f32 tensors.
class ExpansionNodes {
public:
  explicit ExpansionNodes(OnnxWriter &w) : w(w), f(w) {}

  /// The parameters of a group of elements.
  struct Shared {
    std::string power, centre;
  };
  /// Computes the parameters from the largest and the smallest nonzero
  /// magnitude of a group.
  Shared choose(const std::string &amax, const std::string &least, float bound);
  /// Returns the expanded largest magnitude.
  std::string expandLargest(const std::string &amax, const Shared &shared);

  /// Returns the expanded and scaled `x`, which is then rounded to the element
  /// format.
  std::string expand(const std::string &x, const Shared &shared,
                     const std::string &scale);
  /// Computes the inverse from log2(|code|) and a value with the sign of the
  /// code.
  std::string contract(const std::string &logarithm, const std::string &sign,
                       const Shared &shared, const std::string &scale);

  /// Returns log2(magnitude) of a value of any format; -infinity for 0.
  std::string findLogarithm(const std::string &magnitude);
  /// Returns log2(magnitude) of an 8-bit value, correctly rounded to f32.
  std::string roundLogarithm(const std::string &magnitude);

private:
  // The names below are those of f64 tensors.
  std::string subtractLog2(const std::string &x, const std::string &less,
                           ArrayRef<double> coefficients);
  std::string findLog2(const std::string &x);
  std::string findAnyLog2(const std::string &magnitude);
  std::string raiseTwo(const std::string &x, ArrayRef<double> coefficients);
  std::string compare(const std::string &x, const std::string &centre,
                      ArrayRef<double> coefficients);

  OnnxWriter &w;
  FloatNodes f;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_EXPANSIONNODES_H
