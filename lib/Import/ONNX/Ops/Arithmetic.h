//===- Arithmetic.h - Formulas of elementwise functions ---------*- C++ -*-===//
//
// Helps to build activations and similar functions from elementwise ops.
// Functions of 16-bit tensors are computed in f32, so that only the result is
// rounded to 16 bits.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_ARITHMETIC_H
#define BINADE_LIB_IMPORT_ONNX_OPS_ARITHMETIC_H

#include "../Node.h"
#include "binade/IR/Subgradient.h"

namespace mlir::binade::importer {

/// Builds elementwise arithmetic on tensors of the type of `x`.
struct Arithmetic {
  Arithmetic(ImplicitLocOpBuilder &b, Value x)
      : b(b), x(x), type(cast<RankedTensorType>(x.getType())) {}

  Value splat(double value) { return buildSplat(b, type, value); }
  Value add(Value lhs, double rhs) {
    return rhs == 0.0 ? lhs : add(lhs, splat(rhs));
  }
  Value add(Value lhs, Value rhs) { return AddOp::create(b, lhs, rhs); }
  Value sub(Value lhs, Value rhs) { return SubOp::create(b, lhs, rhs); }
  Value mul(Value lhs, double rhs) {
    return rhs == 1.0 ? lhs : mul(lhs, splat(rhs));
  }
  Value mul(Value lhs, Value rhs) { return MulOp::create(b, lhs, rhs); }
  Value div(Value lhs, double rhs) {
    return rhs == 1.0 ? lhs : div(lhs, splat(rhs));
  }
  Value div(Value lhs, Value rhs) { return DivOp::create(b, lhs, rhs); }
  Value sqrt(Value y) { return SqrtOp::create(b, y); }
  Value min(Value y, double bound) { return MinOp::create(b, y, splat(bound)); }
  Value max(Value y, double bound) { return MaxOp::create(b, y, splat(bound)); }
  Value compare(Value lhs, Comparison comparison, double rhs) {
    return CompareOp::create(b, lhs, splat(rhs), comparison);
  }
  Value select(Value condition, Value lhs, Value rhs) {
    return SelectOp::create(b, condition, lhs, rhs);
  }
  /// |x|, whose derivative at 0 is 1, so that odd functions built from it have
  /// the right derivative at 0.
  Value size() {
    Value isNegative = compare(x, Comparison::Less, 0.0);
    return select(isNegative, NegOp::create(b, x), x);
  }
  /// Gives `size`, which is not negative, the sign of x.
  Value withSign(Value size) {
    Value isNegative = compare(x, Comparison::Less, 0.0);
    return select(isNegative, NegOp::create(b, size), size);
  }
  /// e^y - 1 for y <= 0, and 0 elsewhere.
  Value decay(Value y) { return Expm1Op::create(b, min(y, 0.0)); }
  /// max(low, min(high, y)), whose derivative is 0 at both bounds.
  Value cut(Value y, double low, double high) {
    for (bool isLow : {false, true}) {
      y = isLow ? max(y, low) : min(y, high);
      setTies(y, Ties::Flat);
    }
    return y;
  }
  /// max(0, min(1, alpha x + beta))
  Value ramp(double alpha, double beta) {
    return cut(add(mul(x, alpha), beta), 0.0, 1.0);
  }
  /// x sigmoid(alpha x)
  Value swish(double alpha) {
    return alpha == 1.0 ? Value(SiluOp::create(b, x))
                        : mul(x, SigmoidOp::create(b, mul(x, alpha)));
  }

  ImplicitLocOpBuilder &b;
  Value x;
  RankedTensorType type;
};

/// Sets the result to `build` of input 0; fails unless its elements are floats.
LogicalResult importFunction(Node &node,
                             function_ref<Value(Arithmetic &)> build);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_ARITHMETIC_H
