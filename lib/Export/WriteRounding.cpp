//===- WriteRounding.cpp - ONNX nodes of rounding -------------------------===//

#include "Rounding.h"
#include "binade/Reference/FloatFormat.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

/// Computes in f64, where scaling by a power of two is exact. Zeros, infinities
/// and NaN are not changed.
std::string mlir::binade::convert::roundTo(OnnxWriter &w, const std::string &x,
                                           FloatType type,
                                           const std::string &random) {
  FloatFormat format(type.getFloatSemantics());
  Type f32 = w.b.getF32Type(), f64 = w.b.getF64Type();
  std::string magnitude = w.cast(w.add("Abs", {x}), f64);
  std::string unit =
      w.add("Max", {ScaleNodes(w).addUnit("", magnitude),
                    w.addDouble(std::ldexp(1.0, format.minExponent))});
  std::string spacing =
      w.add("Mul", {unit, w.addDouble(std::ldexp(1.0, 1 - format.precision))});
  std::string steps = w.add("Div", {magnitude, spacing});
  std::string whole = w.add(random.empty() ? "Round" : "Floor", {steps});
  if (!random.empty()) {
    std::string way = w.add("Sub", {steps, whole});
    std::string goesUp = w.add("Less", {w.cast(random, f64), way});
    whole = w.add("Add", {whole, w.cast(goesUp, f64)});
  }
  std::string rounded = w.cast(w.add("Mul", {whole, spacing}), f32);
  std::string zero = w.addFloat(0.0), isNegative = w.add("Less", {x, zero});
  rounded = w.add("Where", {isNegative, w.add("Neg", {rounded}), rounded});
  std::string most = w.addFloat(std::numeric_limits<float>::max());
  std::string isFinite = w.add("LessOrEqual", {w.add("Abs", {x}), most});
  std::string isZero = w.add("Equal", {x, zero});
  std::string isRounded = w.add("And", {isFinite, w.add("Not", {isZero})});
  return w.add("Where", {isRounded, rounded, x});
}

void mlir::binade::convert::writeRounding(OnnxWriter &w, RoundToOp op) {
  w.set(op.getY(), roundTo(w, w.get(op.getX()), op.getFloatFormat()));
}
