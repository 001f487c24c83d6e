//===- Elementwise.td - one element in, one element out -------------------===//

#ifndef BINADE_IR_OPS_ELEMENTWISE_TD
#define BINADE_IR_OPS_ELEMENTWISE_TD

include "binade/IR/Ops/Base.td"

// An elementwise op is one record. `unpack`, one declaration, names the
// operands. `scalar` computes one element from theirs (f32, i64 or i1, or
// vectors of them; the tensors' types say whether integers are unsigned).
// `adjoint` computes the gradients of the operands from the cotangent `dy`, the
// operands and the result `y`; without it, the op has no gradient. Shapes,
// precision, lowering and fusion follow from here. The description is
// `semantics`, what the op computes, then `formats` and `example`.
class Binade_ElementwiseOp<string mnemonic, string precisionClass,
                           dag operands, string unpack, list<Trait> traits = []>
    : Binade_PrecisionOp<mnemonic, precisionClass, !listconcat(traits, [
          Pure, SameOperandsAndResultShape, InferTypeOpAdaptorWithIsCompatible,
          DeclareOpInterfaceMethods<DifferentiableOpInterface>,
          DeclareOpInterfaceMethods<ElementwiseOpInterface>,
          DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>,
          DeclareOpInterfaceMethods<LayoutOpInterface>])> {
  code semantics = ?;
  code formats = [{
    Operands and result have one shape; their formats may differ. Narrow floats are widened
    to f32, in which the op computes (f64 stays f64), and the result is rounded once to its
    format, to nearest, ties to even. Empty tensors give an empty tensor.
  }];
  code example = ?;
  let description = semantics # formats # example;
  code scalar = ?;
  code adjoint = [{ return SmallVector<Value>(operands.size()); }];
  code resultType = [{ return operands.front().getType(); }];
  let arguments = !con(operands, (ins Binade_PrecisionArg:$precision));
  let results = (outs Tensor:$y);
  let extraClassDefinition = classDefinition # [{
    Schedule $cppClass::getSchedule() { return Schedule::Elementwise; }
    LogicalResult $cppClass::inferReturnTypes(
        MLIRContext *, std::optional<Location>, Adaptor adaptor,
        SmallVectorImpl<Type> &types) {
      auto infer = [](ValueRange operands) -> Type {
        }] # resultType # [{
      };
      types.push_back(infer(adaptor.getOperands()));
      return success();
    }
    bool $cppClass::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
      return haveSameShapes(l, r);
    }
    Value $cppClass::buildScalar(ImplicitLocOpBuilder &b, ValueRange operands) {
      [[maybe_unused]] }] # unpack # scalar # [{
    }
    SmallVector<Value> $cppClass::buildAdjoint(ImplicitLocOpBuilder &b,
                                               ArrayRef<Value> cotangents) {
      ValueRange operands = getOperation()->getOperands();
      [[maybe_unused]] Value dy = cotangents.front(), y = getY();
      [[maybe_unused]] }] # unpack # adjoint # [{
    }
  }];
}

class Binade_UnaryOp<string mnemonic, string precisionClass,
                     dag attributes = (ins), list<Trait> traits = [],
                     Type operand = FloatTensor>
    : Binade_ElementwiseOp<mnemonic, precisionClass,
          !con((ins operand:$x), attributes),
          "Value x = operands[0];", traits> {
  let example = [{
    Example:

    ```mlir
    %y = binade.}] # mnemonic # [{ %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
}

class Binade_BinaryOp<string mnemonic, string precisionClass,
                      dag attributes = (ins), list<Trait> traits = [],
                      Type operand = NumberTensor>
    : Binade_ElementwiseOp<mnemonic, precisionClass,
          !con((ins operand:$lhs, operand:$rhs), attributes),
          "Value lhs = operands[0], rhs = operands[1];",
          !listconcat(traits, [OneKindOfElements])> {
  let formats = [{
    Operands and result have one shape. Either all are floating-point, in formats that may
    differ: narrow floats are widened to f32, in which the op computes (f64 stays f64), and
    the result is rounded once to its format, to nearest, ties to even. Or all have one
    integer type. Empty tensors give an empty tensor.
  }];
  let example = [{
    Example:

    ```mlir
    %y = binade.}] # mnemonic # [{ %lhs, %rhs
       : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
}

// Of bits: operands and result have one type.
class Binade_BitwiseOp<string mnemonic>
    : Binade_BinaryOp<mnemonic, "Clear", (ins), [Commutative], BitsTensor> {
  let formats = [{
    Operands and result have one shape and one integer type, i1 included. Empty tensors give
    an empty tensor. The op has no gradient.
  }];
  let example = [{
    Example:

    ```mlir
    %y = binade.}] # mnemonic # [{ %lhs, %rhs
       : (tensor<8x64xi1>, tensor<8x64xi1>) -> tensor<8x64xi1>
    ```
  }];
}

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

def Binade_NegOp : Binade_UnaryOp<"neg", "Clear"> {
  let summary = "elementwise negation";
  let semantics = [{
    `y = -x`: flips the sign bit, also that of a NaN. The gradient is `-dy`.
  }];
  let scalar = [{ return arith::NegFOp::create(b, x); }];
  let adjoint = [{ return {NegOp::create(b, dy)}; }];
}

def Binade_AbsOp : Binade_UnaryOp<"abs", "Clear"> {
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
  let extraClassDeclaration = "bool isSingularAtZero(unsigned) { return true; }";
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
  let extraClassDeclaration = "bool isSingularAtZero(unsigned) { return true; }";
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
  let scalar = [{ return buildGelu(b, x, getApproximate()); }];
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

class Binade_UnaryGradOp<string mnemonic, string precisionClass,
                         dag attributes = (ins)>
    : Binade_ElementwiseOp<mnemonic, precisionClass,
          !con((ins FloatTensor:$gradient, FloatTensor:$saved), attributes),
          "Value gradient = operands[0], saved = operands[1];",
          [NotDifferentiable]> {
  let example = [{
    Example:

    ```mlir
    %dx = binade.}] # mnemonic # [{ %dy, %saved
       : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
}

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

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

def Binade_AddOp : Binade_BinaryOp<"add", "Infer", (ins), [Commutative]> {
  let summary = "elementwise sum";
  let semantics = [{
    `y = lhs + rhs`. Infinities of opposite signs give NaN. Integers wrap around. Both
    gradients are `dy`.
  }];
  let scalar = [{ return buildBinary<arith::AddFOp, arith::AddIOp>(b, lhs, rhs); }];
  let adjoint = [{ return {dy, dy}; }];
}

def Binade_SubOp : Binade_BinaryOp<"sub", "Infer"> {
  let summary = "elementwise difference";
  let semantics = [{
    `y = lhs - rhs`. Infinities of equal signs give NaN. Integers wrap around. The gradients
    are `dy` and `-dy`.
  }];
  let scalar = [{ return buildBinary<arith::SubFOp, arith::SubIOp>(b, lhs, rhs); }];
  let adjoint = [{ return {dy, NegOp::create(b, dy)}; }];
}

def Binade_MulOp : Binade_BinaryOp<"mul", "Infer", (ins), [Commutative]> {
  let summary = "elementwise product";
  let semantics = [{
    `y = lhs rhs`. 0 times an infinity is NaN. Integers wrap around. The gradients are `dy
    rhs` and `dy lhs`.
  }];
  let extraClassDeclaration = "bool isFactor(unsigned) { return true; }";
  let scalar = [{ return buildBinary<arith::MulFOp, arith::MulIOp>(b, lhs, rhs); }];
  let adjoint = [{
    return {MulOp::create(b, dy, rhs), MulOp::create(b, dy, lhs)};
  }];
}

def Binade_DivOp : Binade_BinaryOp<"div", "Infer"> {
  let summary = "elementwise quotient";
  let semantics = [{
    `y = lhs / rhs`. 0 / 0 is NaN, another element divided by 0 an infinity. Quotients of
    integers are truncated toward 0; an integer divided by 0 is 0, and the smallest integer
    divided by -1 is itself. The gradients are `dy / rhs` and `-(dy / rhs) y`.
  }];
  let extraClassDeclaration = [{
    bool isSingularAtZero(unsigned index) { return index == 1; }
  }];
  let scalar = [{
    return buildQuotient(b, lhs, rhs, isUnsigned(getLhs().getType()));
  }];
  let adjoint = [{
    Value dlhs = DivOp::create(b, dy, rhs);
    return {dlhs, NegOp::create(b, MulOp::create(b, dlhs, y))};
  }];
}

def Binade_PowOp : Binade_BinaryOp<"pow", "Deny", (ins), [], FloatTensor> {
  let summary = "elementwise power of floats";
  let semantics = [{
    `y = lhs^rhs`, with the special values of C: anything to the power of 0 is 1, and a
    negative base with a non-integer exponent gives NaN. The gradient of `lhs` is `dy rhs
    lhs^(rhs - 1)`, and 0 where `rhs` is 0. At 0 it is 0 too if `lhs` is a sum of squares or
    magnitudes and `rhs` a constant between 0 and 1: a norm. The gradient of `rhs` is `dy y
    ln(lhs)`, and 0 where `lhs` is 0 and `rhs` is not negative; a constant has none.
  }];
  let formats = [{
    Operands and result are floating-point and have one shape; their formats may differ.
    Narrow floats are widened to f32, in which the op computes (f64 stays f64), and the
    result is rounded once to its format, to nearest, ties to even. Empty tensors give an
    empty tensor.
  }];
  let extraClassDeclaration = "bool isSingularAtZero(unsigned) { return true; }";
  // d lhs = dy rhs lhs^(rhs - 1), 0 where rhs is 0, and at 0 where the power is a
  // norm; d rhs = dy y log(lhs), 0 where lhs is 0 and rhs is not negative.
  let adjoint = [{
    Value one = buildSplat(b, rhs.getType(), 1.0);
    Value zero = buildSplat(b, lhs.getType(), 0.0);
    Value slope = PowOp::create(b, lhs, SubOp::create(b, rhs, one));
    Value dlhs = MulOp::create(b, dy, MulOp::create(b, rhs, slope));
    if (!isNonZeroConstant(rhs))
      dlhs = zeroWhere(b, rhs, 0.0, dlhs);
    if (isConstantBetweenZeroAnd(rhs, 1.0) && isSumOfMagnitudes(lhs))
      dlhs = zeroWhere(b, lhs, 0.0, dlhs);
    if (isConstant(rhs))
      return {dlhs, Value()};
    Value isFlat = AndOp::create(
        b, CompareOp::create(b, lhs, zero, Comparison::Equal),
        CompareOp::create(b, rhs, zero, Comparison::GreaterEqual));
    Value logarithm = LogOp::create(b, lhs);
    Value drhs = MulOp::create(b, dy, MulOp::create(b, y, logarithm));
    return {dlhs, SelectOp::create(b, isFlat, zero, drhs)};
  }];
  let scalar = [{ return math::PowFOp::create(b, lhs, rhs); }];
}

def Binade_MaxOp : Binade_BinaryOp<"max", "Clear", (ins), [Commutative]> {
  let summary = "elementwise maximum";
  let semantics = [{
    NaN if either side is NaN. The gradient goes to the larger side. Equal sides share it,
    except that a constant is a bound, which gets none.
  }];
  let scalar = [{
    if (isUnsigned(getLhs().getType()))
      return arith::MaxUIOp::create(b, lhs, rhs);
    return buildBinary<arith::MaximumFOp, arith::MaxSIOp>(b, lhs, rhs);
  }];
  let adjoint = [{
    return buildExtremeAdjoint(b, *this, dy, Comparison::Less);
  }];
}

def Binade_MinOp : Binade_BinaryOp<"min", "Clear", (ins), [Commutative]> {
  let summary = "elementwise minimum";
  let semantics = [{
    NaN if either side is NaN. The gradient goes to the smaller side. Equal sides share it,
    except that a constant is a bound, which gets none.
  }];
  let scalar = [{
    if (isUnsigned(getLhs().getType()))
      return arith::MinUIOp::create(b, lhs, rhs);
    return buildBinary<arith::MinimumFOp, arith::MinSIOp>(b, lhs, rhs);
  }];
  let adjoint = [{
    return buildExtremeAdjoint(b, *this, dy, Comparison::Greater);
  }];
}

//===----------------------------------------------------------------------===//
// Comparison, logic, selection
//===----------------------------------------------------------------------===//

def Binade_CompareOp : Binade_BinaryOp<"compare", "Clear",
    (ins Binade_ComparisonAttr:$comparison)> {
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$rhs,
                                 "::mlir::binade::Comparison":$comparison), [{
    build($_builder, $_state, lhs, rhs, comparison, PrecisionAttr());
  }]>];
  let summary = "elementwise ordered comparison";
  let semantics = [{
    `comparison` is `equal`, `less`, `less_equal`, `greater` or `greater_equal`. The result
    is false where a side is NaN; -0 equals 0. The op has no gradient.
  }];
  let formats = [{
    The sides have one shape and are both floating-point, in formats that may differ, or of
    one integer type. The result is i1. Empty tensors give an empty tensor.
  }];
  let example = [{
    Example:

    ```mlir
    %y = binade.compare %lhs, %rhs {comparison = #binade.comparison<less>}
       : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xi1>
    ```
  }];
  let results = (outs BoolTensor:$y);
  let scalar = [{
    return buildComparison(b, lhs, rhs, getComparison(),
                           isUnsigned(getLhs().getType()));
  }];
  let resultType = [{
    auto type = cast<RankedTensorType>(operands.front().getType());
    return type.clone(IntegerType::get(type.getContext(), 1));
  }];
}

def Binade_AndOp : Binade_BitwiseOp<"and"> {
  let summary = "bitwise and";
  let semantics = [{
    The conjunction of the bits of both sides.
  }];
  let scalar = [{ return arith::AndIOp::create(b, lhs, rhs); }];
}

def Binade_OrOp : Binade_BitwiseOp<"or"> {
  let summary = "bitwise or";
  let semantics = [{
    The disjunction of the bits of both sides.
  }];
  let scalar = [{ return arith::OrIOp::create(b, lhs, rhs); }];
}

def Binade_XorOp : Binade_BitwiseOp<"xor"> {
  let summary = "bitwise exclusive or";
  let semantics = [{
    The exclusive disjunction of the bits of both sides.
  }];
  let scalar = [{ return arith::XOrIOp::create(b, lhs, rhs); }];
}

def Binade_NotOp : Binade_UnaryOp<"not", "Clear", (ins), [], BoolTensor> {
  let summary = "elementwise logical negation";
  let semantics = [{
    `y` is true where `x` is false.
  }];
  let formats = [{
    Operand and result are i1 and have one shape. An empty tensor gives an empty tensor. The
    op has no gradient.
  }];
  let example = [{
    Example:

    ```mlir
    %y = binade.not %x : (tensor<8x64xi1>) -> tensor<8x64xi1>
    ```
  }];
  let scalar = [{ return arith::XOrIOp::create(b, x, splat(b, x, 1)); }];
}

def Binade_JoinHalvesOp : Binade_ElementwiseOp<"join_halves", "Clear",
    (ins TensorOf<[BF16]>:$high, TensorOf<[I16]>:$low, UnitAttr:$rounded),
    "Value high = operands[0], low = operands[1];"> {
  let summary = "joins bf16 and the low half of an f32 to that f32";
  let semantics = [{
    The bits of `high` are the upper half of the result, those of `low` the lower half. With
    `rounded`, `high` was rounded to nearest: it is one more than the upper half where
    `low`, as a signed integer, is negative, and the result is corrected. The op is exact.
    It reads parameters that the masters `split_trunc` and `split_round` store. It has no
    gradient.
  }];
  let formats = [{
    Operands and result have one shape. Empty tensors give an empty tensor.
  }];
  let example = [{
    Example:

    ```mlir
    %y = binade.join_halves %high, %low {rounded}
       : (tensor<8x64xbf16>, tensor<8x64xi16>) -> tensor<8x64xf32>
    ```
  }];
  let scalar = [{
    auto like = [&](Value x, Type element) -> Type {
      auto vector = dyn_cast<VectorType>(x.getType());
      return vector ? vector.clone(element) : element;
    };
    Value word = arith::BitcastOp::create(b, like(high, b.getI32Type()), high);
    Value rest = getElementTypeOrSelf(low).isInteger(16)
                     ? arith::ExtSIOp::create(b, word.getType(), low).getResult()
                     : arith::TruncIOp::create(b, word.getType(), low);
    if (!getRounded())
      rest = arith::AndIOp::create(b, rest, splat(b, rest, 0xffff));
    Value joined = arith::AddIOp::create(b, word, rest);
    return arith::BitcastOp::create(b, high.getType(), joined);
  }];
  let resultType = [{
    auto type = cast<RankedTensorType>(operands.front().getType());
    return type.clone(Float32Type::get(type.getContext()));
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$high, "::mlir::Value":$low,
                                 "bool":$rounded), [{
    build($_builder, $_state, high, low, rounded, PrecisionAttr());
  }]>];
}

def Binade_SelectOp : Binade_ElementwiseOp<"select", "Clear",
    (ins BoolTensor:$condition, Tensor:$lhs, Tensor:$rhs),
    "Value condition = operands[0], lhs = operands[1], rhs = operands[2];",
    [OneKindOfElements]> {
  let summary = "elementwise choice";
  let semantics = [{
    `lhs` where `condition` is true, otherwise `rhs`. Elements are not changed, unless the
    result has another format. The gradient goes to the side that was chosen; the other side
    gets 0.
  }];
  let formats = [{
    Operands and result have one shape. The sides are both floating-point, in formats that
    may differ, or have one element type. Empty tensors give an empty tensor.
  }];
  let example = [{
    Example:

    ```mlir
    %y = binade.select %condition, %lhs, %rhs
       : (tensor<8x64xi1>, tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let scalar = [{ return arith::SelectOp::create(b, condition, lhs, rhs); }];
  let adjoint = [{
    SmallVector<Value> sides = selectGradients(b, dy, condition);
    return {Value(), sides[0], sides[1]};
  }];
  let resultType = [{ return operands[1].getType(); }];
}

#endif // BINADE_IR_OPS_ELEMENTWISE_TD
