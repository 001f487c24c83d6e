//===- Elementwise.td - elementwise ops of one operand --------------------===//

#ifndef BINADE_IR_OPS_ELEMENTWISE_TD
#define BINADE_IR_OPS_ELEMENTWISE_TD

include "binade/IR/Ops/ElementwiseBase.td"

def Binade_NegOp : Binade_UnaryOp<"neg", "Clear"> {
  let extraClassDeclaration = [{
    Linearity getLinearity() { return Linearity::Joint; }
    ::std::optional<double> getSign(unsigned) { return -1.0; }
  }];
  let summary = "elementwise negation";
  let semantics = [{
    `y = -x`: flips the sign bit, also that of a NaN. The gradient is `-dy`.
  }];
  let scalar = [{ return arith::NegFOp::create(b, x); }];
  let adjoint = [{ return {NegOp::create(b, dy)}; }];
}

def Binade_AbsOp : Binade_UnaryOp<"abs", "Clear"> {
  let extraClassDeclaration = [{
    ::std::function<double(double)> getElementMap(unsigned);
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds);
  }];
  let summary = "elementwise magnitude";
  let semantics = [{
    `y = |x|`: clears the sign bit, also that of a NaN. The gradient is `dy sign(x)`; at 0
    it is 0, as in PyTorch.
  }];
  let scalar = [{ return math::AbsFOp::create(b, x); }];
  let adjoint = [{ return {MulOp::create(b, dy, SignOp::create(b, x))}; }];
}

def Binade_SignOp : Binade_UnaryOp<"sign", "Clear"> {
  let summary = "elementwise sign";
  let semantics = [{
    -1 for negative elements, 1 for positive ones. A zero keeps its sign, a NaN stays a NaN. The
    op has no gradient.
  }];
  let scalar = [{
    Value zero = splat(b, x, 0.0);
    Value positive = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, zero);
    Value negative = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, zero);
    Value below = arith::SelectOp::create(b, negative, splat(b, x, -1.0), x);
    return arith::SelectOp::create(b, positive, splat(b, x, 1.0), below);
  }];
}

def Binade_ExpOp : Binade_UnaryOp<"exp", "Deny"> {
  let summary = "elementwise exponential";
  let semantics = [{
    `y = e^x`. Overflow gives infinity, underflow 0, a NaN a NaN. The gradient is `dy y`.
  }];
  let scalar = [{ return math::ExpOp::create(b, x); }];
  let adjoint = [{ return {MulOp::create(b, dy, y)}; }];
}

def Binade_LogOp : Binade_UnaryOp<"log", "Deny"> {
  let summary = "elementwise natural logarithm";
  let semantics = [{
    `y = ln(x)`. 0 gives minus infinity, a negative element NaN. The gradient is `dy / x`.
    It is 0 at 0 if every reader of the result clamps it by a constant, as binary
    cross-entropy does.
  }];
  let extraClassDeclaration = "bool isSingularAtZero(unsigned) { return true; }";
  let scalar = [{ return math::LogOp::create(b, x); }];
  let adjoint = [{
    Value dx = DivOp::create(b, dy, x);
    return {isBounded(y) ? zeroWhere(b, x, 0.0, dx) : dx};
  }];
}

def Binade_Expm1Op : Binade_UnaryOp<"expm1", "Deny"> {
  let summary = "elementwise e^x - 1";
  let semantics = [{
    `y = e^x - 1`, with a small relative error also near 0. The gradient is `dy (y + 1)`.
  }];
  let scalar = [{ return math::ExpM1Op::create(b, x); }];
  let adjoint = [{
    Value one = buildSplat(b, y.getType(), 1.0);
    return {MulOp::create(b, dy, AddOp::create(b, y, one))};
  }];
}

def Binade_Log1pOp : Binade_UnaryOp<"log1p", "Deny"> {
  let summary = "elementwise log(1 + x)";
  let semantics = [{
    `y = ln(1 + x)`, with a small relative error also near 0. -1 gives minus infinity, less
    gives NaN. The gradient is `dy / (1 + x)`. It is 0 at -1 if every reader of the result
    clamps it by a constant.
  }];
  let scalar = [{ return math::Log1pOp::create(b, x); }];
  let adjoint = [{
    Value one = buildSplat(b, x.getType(), 1.0);
    Value dx = DivOp::create(b, dy, AddOp::create(b, x, one));
    return {isBounded(y) ? zeroWhere(b, x, -1.0, dx) : dx};
  }];
}

def Binade_SinOp : Binade_UnaryOp<"sin", "Deny"> {
  let summary = "elementwise sine of an angle in radians";
  let semantics = [{
    `y = sin(x)`. An infinity gives NaN. The gradient is `dy cos(x)`.
  }];
  let scalar = [{ return math::SinOp::create(b, x); }];
  let adjoint = [{ return {MulOp::create(b, dy, CosOp::create(b, x))}; }];
}

def Binade_CosOp : Binade_UnaryOp<"cos", "Deny"> {
  let summary = "elementwise cosine of an angle in radians";
  let semantics = [{
    `y = cos(x)`. An infinity gives NaN. The gradient is `-dy sin(x)`.
  }];
  let scalar = [{ return math::CosOp::create(b, x); }];
  let adjoint = [{
    return {NegOp::create(b, MulOp::create(b, dy, SinOp::create(b, x)))};
  }];
}

def Binade_AtanOp : Binade_UnaryOp<"atan", "Infer"> {
  let summary = "elementwise inverse tangent, in radians";
  let semantics = [{
    `y = atan(x)`, between -pi/2 and pi/2. The gradient is `dy / (1 + x^2)`.
  }];
  let scalar = [{ return math::AtanOp::create(b, x); }];
  let adjoint = [{
    Value one = buildSplat(b, x.getType(), 1.0);
    Value slope = AddOp::create(b, MulOp::create(b, x, x), one);
    return {DivOp::create(b, dy, slope)};
  }];
}

def Binade_FloorOp : Binade_UnaryOp<"floor", "Clear"> {
  let summary = "elementwise rounding down to an integer";
  let semantics = [{
    The largest integer that is at most x. Infinities and NaN stay. The op has no gradient.
  }];
  let scalar = [{ return math::FloorOp::create(b, x); }];
}

def Binade_CeilOp : Binade_UnaryOp<"ceil", "Clear"> {
  let summary = "elementwise rounding up to an integer";
  let semantics = [{
    The smallest integer that is at least x. Infinities and NaN stay. The op has no
    gradient.
  }];
  let scalar = [{ return math::CeilOp::create(b, x); }];
}

def Binade_RoundOp : Binade_UnaryOp<"round", "Clear"> {
  let summary = "elementwise rounding to the nearest integer";
  let semantics = [{
    The nearest integer; halfway cases go to the even one. Infinities and NaN stay. The op
    has no gradient.
  }];
  let scalar = [{ return math::RoundEvenOp::create(b, x); }];
}

def Binade_SqrtOp : Binade_UnaryOp<"sqrt", "Infer"> {
  let summary = "elementwise square root";
  let semantics = [{
    A negative element gives NaN; -0 stays -0. The gradient is `dy / (2 y)`, which is
    infinite at 0. If the operand is a sum of squares or of magnitudes, so that the root is
    a norm, the gradient at 0 is 0.
  }];
  let extraClassDeclaration = [{
    bool isSingularAtZero(unsigned) { return true; }
    ::std::function<double(double)> getElementMap(unsigned);
  }];
  let scalar = [{ return math::SqrtOp::create(b, x); }];
  let adjoint = [{
    Value half = buildSplat(b, y.getType(), 0.5);
    Value dx = DivOp::create(b, MulOp::create(b, dy, half), y);
    return {isSumOfMagnitudes(x) ? zeroWhere(b, y, 0.0, dx) : dx};
  }];
}

def Binade_ReciprocalOp : Binade_UnaryOp<"reciprocal", "Deny"> {
  let summary = "elementwise 1 / x";
  let semantics = [{
    `y = 1 / x`. A zero gives an infinity of its sign, an infinity a zero. The gradient is
    `-dy y^2`.
  }];
  let extraClassDeclaration = [{
    bool isSingularAtZero(unsigned) { return true; }
    ::std::function<double(double)> getElementMap(unsigned);
  }];
  let scalar = [{ return arith::DivFOp::create(b, splat(b, x, 1.0), x); }];
  let adjoint = [{
    Value square = MulOp::create(b, y, y);
    return {NegOp::create(b, MulOp::create(b, dy, square))};
  }];
}

def Binade_TanhOp : Binade_UnaryOp<"tanh", "Infer"> {
  let summary = "elementwise hyperbolic tangent";
  let semantics = [{
    `y = tanh(x)`; infinities give -1 and 1, a NaN a NaN. The gradient is `dy (1 - y^2)`.
  }];
  let scalar = [{ return math::TanhOp::create(b, x); }];
  let adjoint = [{
    Value one = buildSplat(b, y.getType(), 1.0);
    Value slope = SubOp::create(b, one, MulOp::create(b, y, y));
    return {MulOp::create(b, dy, slope)};
  }];
}

def Binade_ErfOp : Binade_UnaryOp<"erf", "Infer"> {
  let summary = "elementwise error function";
  let semantics = [{
    `y = erf(x)`; infinities give -1 and 1, a NaN a NaN. The gradient is
    `dy 2 / sqrt(pi) e^(-x^2)`.
  }];
  let scalar = [{ return math::ErfOp::create(b, x); }];
  // erf'(x) = 2 / sqrt(pi) exp(-x^2)
  let adjoint = [{
    Value gauss = ExpOp::create(b, NegOp::create(b, MulOp::create(b, x, x)));
    Value factor = buildSplat(b, x.getType(), 2.0 / std::sqrt(llvm::numbers::pi));
    return {MulOp::create(b, dy, MulOp::create(b, factor, gauss))};
  }];
}

def Binade_SigmoidOp : Binade_UnaryOp<"sigmoid", "Infer"> {
  let summary = "elementwise logistic function";
  let semantics = [{
    `y = 1 / (1 + e^-x)`; infinities give 0 and 1, a NaN a NaN. The gradient is `dy y (1 -
    y)`.
  }];
  let scalar = [{
    Value one = splat(b, x, 1.0);
    Value decay = math::ExpOp::create(b, arith::NegFOp::create(b, x));
    return arith::DivFOp::create(b, one, arith::AddFOp::create(b, one, decay));
  }];
  let adjoint = [{
    Value one = buildSplat(b, y.getType(), 1.0);
    Value slope = MulOp::create(b, y, SubOp::create(b, one, y));
    return {MulOp::create(b, dy, slope)};
  }];
}

def Binade_SoftplusOp : Binade_UnaryOp<"softplus", "Deny"> {
  let summary = "elementwise log(1 + e^x)";
  let semantics = [{
    `y = max(x, 0) + ln(1 + e^-|x|)`, which does not overflow. Minus infinity gives 0, a NaN
    a NaN. The gradient is `dy sigmoid(x)`.
  }];
  let scalar = [{
    Value zero = splat(b, x, 0.0);
    Value size = arith::NegFOp::create(b, math::AbsFOp::create(b, x));
    Value rest = math::Log1pOp::create(b, math::ExpOp::create(b, size));
    Value above = arith::MaximumFOp::create(b, x, zero);
    return arith::AddFOp::create(b, above, rest);
  }];
  let adjoint = [{ return {MulOp::create(b, dy, SigmoidOp::create(b, x))}; }];
}

def Binade_ReluOp : Binade_UnaryOp<"relu", "Clear"> {
  let extraClassDeclaration =
      "::std::function<double(double)> getElementMap(unsigned);";
  let summary = "elementwise rectifier";
  let semantics = [{
    0 for negative elements, otherwise x; a NaN stays a NaN. The gradient is `relu_grad`,
    which is 0 at 0.
  }];
  let scalar = [{
    Value zero = splat(b, x, 0.0);
    Value negative = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, zero);
    return arith::SelectOp::create(b, negative, zero, x);
  }];
  let adjoint = [{ return {ReluGradOp::create(b, dy, y)}; }];
}

def Binade_GeluOp : Binade_UnaryOp<"gelu", "Infer",
    (ins DefaultValuedAttr<Binade_ApproximationAttr,
                           "::mlir::binade::Approximation::None">:$approximate)> {
  let summary = "Gaussian error linear unit";
  let semantics = [{
    Hendrycks & Gimpel, 2016. `approximate = none`: `y = x (1 + erf(x / sqrt(2))) / 2`.
    `tanh`: `y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`. Minus infinity gives
    NaN, as the product does. The gradient is `gelu_grad`.
  }];
  let scalar = [{
    return getAccuracy(*this) ? buildNarrowGelu(b, x, getApproximate())
                              : buildGelu(b, x, getApproximate());
  }];
  let adjoint = [{ return {GeluGradOp::create(b, dy, x, getApproximate())}; }];
}

def Binade_SiluOp : Binade_UnaryOp<"silu", "Infer"> {
  let summary = "sigmoid linear unit, also called swish";
  let semantics = [{
    Hendrycks & Gimpel, 2016: `y = x / (1 + e^-x)`. Minus infinity gives NaN, as the product
    of x and sigmoid(x) does. The gradient is `silu_grad`.
  }];
  let scalar = [{ return buildSilu(b, x); }];
  let adjoint = [{ return {SiluGradOp::create(b, dy, x)}; }];
}

//===----------------------------------------------------------------------===//
// Gradients of named unary ops: policies address them by name
//===----------------------------------------------------------------------===//

def Binade_ReluGradOp : Binade_UnaryGradOp<"relu_grad", "Clear"> {
  let summary = "gradient of relu";
  let semantics = [{
    `dx = gradient` where `saved`, the result of `relu`, is positive or NaN, otherwise 0.
  }];
  let scalar = [{
    Value zero = splat(b, saved, 0.0);
    Value off = arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, saved, zero);
    return arith::SelectOp::create(b, off, splat(b, gradient, 0.0), gradient);
  }];
}

def Binade_GeluGradOp : Binade_UnaryGradOp<"gelu_grad", "Infer",
    (ins DefaultValuedAttr<Binade_ApproximationAttr,
                           "::mlir::binade::Approximation::None">:$approximate)> {
  let summary = "gradient of gelu";
  let semantics = [{
    `gradient` times the derivative of `gelu` at `saved`, the operand of `gelu`, by the
    formula that `approximate` says.
  }];
  let scalar = [{ return buildGeluGrad(b, gradient, saved, getApproximate()); }];
}

def Binade_SiluGradOp : Binade_UnaryGradOp<"silu_grad", "Infer"> {
  let summary = "gradient of silu";
  let semantics = [{
    `gradient` times the derivative of `silu` at `saved`, the operand of `silu`.
  }];
  let scalar = [{ return buildSiluGrad(b, gradient, saved); }];
}

#endif // BINADE_IR_OPS_ELEMENTWISE_TD
