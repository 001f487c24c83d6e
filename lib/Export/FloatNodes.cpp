//===- FloatNodes.cpp - Rounded operations of f32, as nodes ---------------===//

#include "FloatNodes.h"
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

/// The sum of f64 is rounded, and rounding it to f32 is wrong only where it
/// lies in the middle between two numbers of f32 and what was lost would have
/// decided. What was lost is a number of f64 (Knuth's TwoSum).
std::string FloatNodes::fma(const std::string &x, const std::string &y,
                            const std::string &z) {
  std::string product = w.add("Mul", {x, y});
  std::string sum = w.add("Add", {product, z});
  std::string added = w.add("Sub", {sum, product});
  std::string kept = w.add("Sub", {sum, added});
  std::string lost =
      w.add("Add", {w.add("Sub", {product, kept}), w.add("Sub", {z, added})});
  std::string near = round(sum);
  std::string rest = w.add("Sub", {sum, near});
  // As far from the sum as `near`, on its other side.
  std::string other = w.add("Add", {sum, rest});
  std::string isTie = w.add("Equal", {round(other), other});
  std::string isBeyond =
      w.add("Greater", {w.add("Mul", {rest, lost}), constant(0.0)});
  return w.add("Where", {w.add("And", {isTie, isBeyond}), other, near});
}

/// Logarithms of powers of two come out near whole numbers.
FloatNodes::Fields FloatNodes::split(const std::string &x) {
  // The bits of y are those of 2^-127 (1 + y 2^126).
  std::string small =
      w.add("Add", {w.add("Mul", {x, constant(0.5)}), constant(0x1p-127)});
  std::string isSmall = w.add("Less", {x, constant(0x1p-126)});
  std::string y = w.add("Where", {isSmall, small, x});
  y = w.add("Min", {y, constant(0x1p128)});
  std::string unit = getUnit(y);
  std::string log =
      w.add("Mul", {w.add("Log", {unit}), constant(std::numbers::log2e)});
  return {w.add("Round", {log}), w.add("Div", {y, unit})};
}

/// The exponential is near sqrt(2) times the power.
std::string FloatNodes::raiseTwo(const std::string &n) {
  std::string middle = w.add("Add", {n, constant(0.5)});
  std::string power = getUnit(
      w.add("Exp", {w.add("Mul", {middle, constant(std::numbers::ln2)})}));
  std::string isBelow = w.add("Less", {n, constant(-126.0)});
  return w.add("Where", {isBelow, constant(0.0), power});
}
