//===- ExpansionNodes.h - Powers that stretch groups, as nodes --*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_EXPANSIONNODES_H
#define BINADE_LIB_EXPORT_EXPANSIONNODES_H

#include "FloatNodes.h"

namespace mlir::binade::convert {

/// Range expansion (`expand` of `#binade.quantized`) by the operations that
/// define it (docs/decisions/0058-range-expansion-bits.md), as
/// lib/Reference/RangeExpansion.cpp has them. Names are those of f32 tensors.
class ExpansionNodes {
public:
  explicit ExpansionNodes(OnnxWriter &w) : w(w), f(w) {}

  /// Of elements that share a scale.
  struct Shared {
    std::string power, centre;
  };
  /// What follows from the largest and the least magnitude.
  Shared choose(const std::string &amax, const std::string &least, float bound);
  /// What the largest magnitude becomes.
  std::string expandLargest(const std::string &amax, const Shared &shared);

  /// What is rounded to a code.
  std::string expand(const std::string &x, const Shared &shared,
                     const std::string &scale);
  /// The inverse, of log2(|code|) and a number with the sign of the code.
  std::string contract(const std::string &logarithm, const std::string &sign,
                       const Shared &shared, const std::string &scale);

  /// log2(magnitude) of a number of any format; -infinity of 0.
  std::string findLogarithm(const std::string &magnitude);
  /// The same of a code of 8 bits: log2 itself, rounded to f32.
  std::string roundLogarithm(const std::string &magnitude);

private:
  // Names of f64 tensors from here on.
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
