//===- FloatNodes.cpp - ONNX nodes of correctly rounded f32 ---------------===//

#include "FloatNodes.h"
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

/// The f64 sum is rounded to f32. This double rounding is wrong only if the sum
/// is halfway between two f32 values and its rounding error, which is an f64
/// value (Knuth's TwoSum), points to the other one.
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
  // The value at the same distance from the sum as `near`, on the other side.
  std::string other = w.add("Add", {sum, rest});
  std::string isTie = w.add("Equal", {round(other), other});
  std::string isBeyond =
      w.add("Greater", {w.add("Mul", {rest, lost}), constant(0.0)});
  return w.add("Where", {w.add("And", {isTie, isBeyond}), other, near});
}

/// Computes the exponent as the rounded logarithm of the largest power of two.
FloatNodes::Fields FloatNodes::split(const std::string &x) {
  // For a subnormal x, 2^-127 (1 + x 2^126) has the exponent -127 and the
  // fraction bits of x.
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

/// The exponential approximates sqrt(2) times the power, so the largest power
/// of two below it is exact.
std::string FloatNodes::raiseTwo(const std::string &n) {
  std::string middle = w.add("Add", {n, constant(0.5)});
  std::string power = getUnit(
      w.add("Exp", {w.add("Mul", {middle, constant(std::numbers::ln2)})}));
  std::string isBelow = w.add("Less", {n, constant(-126.0)});
  return w.add("Where", {isBelow, constant(0.0), power});
}
