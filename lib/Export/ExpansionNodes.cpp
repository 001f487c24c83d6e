//===- ExpansionNodes.cpp - ONNX nodes of range expansion -----------------===//

#include "ExpansionNodes.h"
#include "binade/IR/RangeExpansion.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using namespace mlir::binade::expansion;

/// Builds log2(x) - less. All sums of the polynomial are exact in f64: d is a
/// multiple of 2^-23, so its product with a value of 24 bits has at most 47
/// bits; sums are at most 2^5 times as large, and no term has smaller bits.
std::string ExpansionNodes::subtractLog2(const std::string &x,
                                         const std::string &less,
                                         ArrayRef<double> coefficients) {
  FloatNodes::Fields fields = f.split(x);
  std::string d = w.add("Sub", {fields.fraction, f.constant(1.5)});
  std::string sum = f.constant(coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back()))
    sum = f.addExactly(sum, d, f.constant(c));
  std::string middle = f.constant(kLog2OfMiddle);
  if (!less.empty())
    middle = f.compute("Sub", {middle, less});
  return f.compute("Add", {fields.exponent, f.addExactly(sum, d, middle)});
}

/// Builds log2(x); NaN if x is not finite.
std::string ExpansionNodes::findLog2(const std::string &x) {
  std::string log = subtractLog2(x, "", kLog2);
  return w.add("Add", {w.add("Mul", {x, f.constant(0.0)}), log});
}

std::string ExpansionNodes::findAnyLog2(const std::string &magnitude) {
  std::string isFinite = w.add("Less", {magnitude, f.constant(INFINITY)});
  std::string isZero = w.add("Equal", {magnitude, f.constant(0.0)});
  std::string log = subtractLog2(magnitude, "", kLog2);
  log = w.add("Where", {isFinite, log, magnitude});
  return w.add("Where", {isZero, f.constant(-INFINITY), log});
}

std::string ExpansionNodes::findLogarithm(const std::string &magnitude) {
  return f.narrow(findAnyLog2(f.widen(magnitude)));
}

/// Rounding twice is safe: no logarithm of an 8-bit value is near the middle
/// between two f32 values.
std::string ExpansionNodes::roundLogarithm(const std::string &magnitude) {
  std::string log = w.add("Log", {f.widen(magnitude)});
  return f.narrow(w.add("Mul", {log, f.constant(std::numbers::log2e)}));
}

/// Builds 2^x. Adding 1.5 2^23 rounds to an integer; the added bias of 127
/// makes ties round to odd.
std::string ExpansionNodes::raiseTwo(const std::string &x,
                                     ArrayRef<double> coefficients) {
  const std::string &least = f.constant(kMinExponent);
  std::string bounded = w.add("Where", {w.add("Less", {x, least}), least, x});
  const std::string &round = f.constant(0x1.8p23 + 127.0);
  std::string n = w.add("Sub", {f.compute("Add", {bounded, round}), round});
  std::string r = w.add("Sub", {bounded, n});
  std::string sum = f.constant(coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back()))
    sum = f.fma(sum, r, f.constant(c));
  sum = f.fma(sum, r, f.constant(1.0));
  return f.compute("Mul", {sum, f.raiseTwo(n)});
}

/// Builds log2(|x| / centre), with both scaled by a power of two that brings
/// the centre to [1, 2).
std::string ExpansionNodes::compare(const std::string &x,
                                    const std::string &centre,
                                    ArrayRef<double> coefficients) {
  std::string unit =
      w.add("Min", {w.add("Max", {f.getUnit(centre), f.constant(0x1p-127)}),
                    f.constant(0x1p126)});
  std::string inverse = w.add("Div", {f.constant(1.0), unit});
  std::string log = findLog2(w.add("Mul", {centre, inverse}));
  std::string moved = f.compute("Mul", {w.add("Abs", {x}), inverse});
  return subtractLog2(moved, log, coefficients);
}

ExpansionNodes::Shared ExpansionNodes::choose(const std::string &amax,
                                              const std::string &least,
                                              float bound) {
  std::string large = f.widen(amax), small = f.widen(least);
  const std::string &one = f.constant(1.0);
  std::string isZero = w.add("Equal", {large, f.constant(0.0)});
  // The ratio may exceed the range of f32.
  std::string isWide = w.add(
      "Greater", {f.compute("Mul", {large, f.constant(0x1p-100)}), small});
  std::string above = f.compute("Mul", {large, f.constant(0x1p-64)});
  std::string below = f.compute("Mul", {small, f.constant(0x1p100)});
  std::string ratio =
      f.compute("Div", {w.add("Where", {isWide, above, large}),
                        w.add("Where", {isWide, below, small})});
  std::string more =
      w.add("Where", {isWide, f.constant(164.0), f.constant(0.0)});
  std::string range = f.compute("Add", {findAnyLog2(ratio), more});
  const std::string &all = f.constant(std::log2(bound));
  std::string steps = f.compute("Div", {all, range});
  steps = w.add("Floor", {f.compute("Mul", {steps, f.constant(kSteps)})});
  steps = w.add("Where", {w.add("Less", {steps, one}), one, steps});
  std::string isNarrow =
      w.add("And", {w.add("Not", {isWide}),
                    w.add("LessOrEqual", {ratio, f.constant(kConstantRatio)})});
  std::string isOne = w.add("Or", {isZero, isNarrow});
  std::string power =
      w.add("Where", {isOne, one, w.add("Div", {steps, f.constant(kSteps)})});
  std::string centre = f.compute(
      "Mul", {f.compute("Sqrt", {large}), f.compute("Sqrt", {small})});
  centre = w.add("Where", {isZero, one, centre});
  return {f.narrow(power), f.narrow(centre)};
}

std::string ExpansionNodes::expandLargest(const std::string &amax,
                                          const Shared &shared) {
  std::string x = f.widen(amax);
  std::string log = compare(x, f.widen(shared.centre), kLog2);
  std::string exponent = f.compute("Mul", {log, f.widen(shared.power)});
  std::string zero = f.constant(0.0);
  // Make the result NaN if x is not finite.
  std::string y =
      w.add("Add", {w.add("Mul", {x, zero}), raiseTwo(exponent, kPower)});
  return f.narrow(w.add("Where", {w.add("Equal", {x, zero}), x, y}));
}

std::string ExpansionNodes::expand(const std::string &x, const Shared &shared,
                                   const std::string &scale) {
  std::string wide = f.widen(x), centre = f.widen(shared.centre);
  std::string log = compare(wide, centre, kShortLog2);
  std::string less = w.add("Neg", {findLog2(f.widen(scale))});
  std::string exponent = f.fma(log, f.widen(shared.power), less);
  return w.copySign(f.narrow(raiseTwo(exponent, kShortPower)), x,
                    w.b.getF32Type());
}

std::string ExpansionNodes::contract(const std::string &logarithm,
                                     const std::string &sign,
                                     const Shared &shared,
                                     const std::string &scale) {
  std::string inverse =
      f.compute("Div", {f.constant(1.0), f.widen(shared.power)});
  std::string log = f.compute("Mul", {findLog2(f.widen(scale)), inverse});
  std::string exponent = f.fma(f.widen(logarithm), inverse, log);
  const std::string &most = f.constant(kMaxExponent);
  std::string isAbove = w.add("Greater", {exponent, most});
  exponent = w.add("Where", {isAbove, most, exponent});
  std::string y = f.compute(
      "Mul", {raiseTwo(exponent, kShortPower), f.widen(shared.centre)});
  return w.copySign(f.narrow(y), sign, w.b.getF32Type());
}
