//===- Elementwise.td - one element in, one element out -------------------===//

#ifndef BINADE_IR_OPS_ELEMENTWISE_TD
#define BINADE_IR_OPS_ELEMENTWISE_TD

include "binade/IR/Ops/Base.td"

// An elementwise op is one record. `unpack`, one declaration, names the
// operands; `scalar` computes one element from theirs (f32, i64 or i1, or
// vectors of them; whether integers are unsigned, their tensors know),
// `adjoint` the operands' gradients from the cotangent `dy`, the operands and
// the result `y`; without one, no gradient flows. Shapes, precision, lowering
// and fusion follow from here.
class Binade_ElementwiseOp<string mnemonic, string precisionClass,
                           dag operands, string unpack, list<Trait> traits = []>
    : Binade_PrecisionOp<mnemonic, precisionClass, !listconcat(traits, [
          Pure, SameOperandsAndResultShape, InferTypeOpAdaptorWithIsCompatible,
          DeclareOpInterfaceMethods<DifferentiableOpInterface>,
          DeclareOpInterfaceMethods<ElementwiseOpInterface>,
          DeclareOpInterfaceMethods<KernelOpInterface, ["getSchedule"]>,
          DeclareOpInterfaceMethods<LayoutOpInterface>])> {
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
          "Value x = operands[0];", traits>;

class Binade_BinaryOp<string mnemonic, string precisionClass,
                      dag attributes = (ins), list<Trait> traits = [],
                      Type operand = NumberTensor>
    : Binade_ElementwiseOp<mnemonic, precisionClass,
          !con((ins operand:$lhs, operand:$rhs), attributes),
          "Value lhs = operands[0], rhs = operands[1];",
          !listconcat(traits, [OneKindOfElements])>;

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

def Binade_NegOp : Binade_UnaryOp<"neg", "Clear"> {
  let summary = "elementwise negation";
  let scalar = [{ return arith::NegFOp::create(b, x); }];
  let adjoint = [{ return {NegOp::create(b, dy)}; }];
}

def Binade_AbsOp : Binade_UnaryOp<"abs", "Clear"> {
  let summary = "elementwise magnitude";
  let description = "The derivative at 0 is 0, as in PyTorch.";
  let scalar = [{ return math::AbsFOp::create(b, x); }];
  let adjoint = [{ return {MulOp::create(b, dy, SignOp::create(b, x))}; }];
}

def Binade_SignOp : Binade_UnaryOp<"sign", "Clear"> {
  let summary = "elementwise sign: -1, 0 or 1; NaN for NaN";
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
  let scalar = [{ return math::ExpOp::create(b, x); }];
  let adjoint = [{ return {MulOp::create(b, dy, y)}; }];
}

def Binade_LogOp : Binade_UnaryOp<"log", "Deny"> {
  let summary = "elementwise natural logarithm";
  let extraClassDeclaration = "bool isSingularAtZero(unsigned) { return true; }";
  let scalar = [{ return math::LogOp::create(b, x); }];
  let adjoint = [{
    Value dx = DivOp::create(b, dy, x);
    return {isBounded(y) ? zeroWhere(b, x, 0.0, dx) : dx};
  }];
}

def Binade_Expm1Op : Binade_UnaryOp<"expm1", "Deny"> {
  let summary = "elementwise e^x - 1, as exact near 0 as elsewhere";
  let scalar = [{ return math::ExpM1Op::create(b, x); }];
  let adjoint = [{
    Value one = buildSplat(b, y.getType(), 1.0);
    return {MulOp::create(b, dy, AddOp::create(b, y, one))};
  }];
}

def Binade_Log1pOp : Binade_UnaryOp<"log1p", "Deny"> {
  let summary = "elementwise log(1 + x), as exact near 0 as elsewhere";
  let scalar = [{ return math::Log1pOp::create(b, x); }];
  let adjoint = [{
    Value one = buildSplat(b, x.getType(), 1.0);
    Value dx = DivOp::create(b, dy, AddOp::create(b, x, one));
    return {isBounded(y) ? zeroWhere(b, x, -1.0, dx) : dx};
  }];
}

def Binade_SinOp : Binade_UnaryOp<"sin", "Deny"> {
  let summary = "elementwise sine of an angle in radians";
  let scalar = [{ return math::SinOp::create(b, x); }];
  let adjoint = [{ return {MulOp::create(b, dy, CosOp::create(b, x))}; }];
}

def Binade_CosOp : Binade_UnaryOp<"cos", "Deny"> {
  let summary = "elementwise cosine of an angle in radians";
  let scalar = [{ return math::CosOp::create(b, x); }];
  let adjoint = [{
    return {NegOp::create(b, MulOp::create(b, dy, SinOp::create(b, x)))};
  }];
}

def Binade_AtanOp : Binade_UnaryOp<"atan", "Infer"> {
  let summary = "elementwise inverse tangent, in radians";
  let scalar = [{ return math::AtanOp::create(b, x); }];
  let adjoint = [{
    Value one = buildSplat(b, x.getType(), 1.0);
    Value slope = AddOp::create(b, MulOp::create(b, x, x), one);
    return {DivOp::create(b, dy, slope)};
  }];
}

def Binade_FloorOp : Binade_UnaryOp<"floor", "Clear"> {
  let summary = "elementwise largest integer that is not above; its slope is 0";
  let scalar = [{ return math::FloorOp::create(b, x); }];
}

def Binade_CeilOp : Binade_UnaryOp<"ceil", "Clear"> {
  let summary = "elementwise smallest integer that is not below; its slope is 0";
  let scalar = [{ return math::CeilOp::create(b, x); }];
}

def Binade_RoundOp : Binade_UnaryOp<"round", "Clear"> {
  let summary = "elementwise nearest integer, halves to even; its slope is 0";
  let scalar = [{ return math::RoundEvenOp::create(b, x); }];
}

def Binade_SqrtOp : Binade_UnaryOp<"sqrt", "Infer"> {
  let summary = "elementwise square root";
  let extraClassDeclaration = "bool isSingularAtZero(unsigned) { return true; }";
  let scalar = [{ return math::SqrtOp::create(b, x); }];
  // At 0 it is infinite, but 0 where the operand is a sum of squares: a norm.
  let adjoint = [{
    Value half = buildSplat(b, y.getType(), 0.5);
    Value dx = DivOp::create(b, MulOp::create(b, dy, half), y);
    return {isSumOfMagnitudes(x) ? zeroWhere(b, y, 0.0, dx) : dx};
  }];
}

def Binade_ReciprocalOp : Binade_UnaryOp<"reciprocal", "Deny"> {
  let summary = "elementwise 1 / x";
  let extraClassDeclaration = "bool isSingularAtZero(unsigned) { return true; }";
  let scalar = [{ return arith::DivFOp::create(b, splat(b, x, 1.0), x); }];
  let adjoint = [{
    Value square = MulOp::create(b, y, y);
    return {NegOp::create(b, MulOp::create(b, dy, square))};
  }];
}

def Binade_TanhOp : Binade_UnaryOp<"tanh", "Infer"> {
  let summary = "elementwise hyperbolic tangent";
  let scalar = [{ return math::TanhOp::create(b, x); }];
  let adjoint = [{
    Value one = buildSplat(b, y.getType(), 1.0);
    Value slope = SubOp::create(b, one, MulOp::create(b, y, y));
    return {MulOp::create(b, dy, slope)};
  }];
}

def Binade_ErfOp : Binade_UnaryOp<"erf", "Infer"> {
  let summary = "elementwise error function";
  let scalar = [{ return math::ErfOp::create(b, x); }];
  // erf'(x) = 2 / sqrt(pi) exp(-x^2)
  let adjoint = [{
    Value gauss = ExpOp::create(b, NegOp::create(b, MulOp::create(b, x, x)));
    Value factor = buildSplat(b, x.getType(), 2.0 / std::sqrt(llvm::numbers::pi));
    return {MulOp::create(b, dy, MulOp::create(b, factor, gauss))};
  }];
}

def Binade_SigmoidOp : Binade_UnaryOp<"sigmoid", "Infer"> {
  let summary = "elementwise logistic function 1 / (1 + exp(-x))";
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
  let summary = "elementwise log(1 + exp(x)), which does not overflow";
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
  let summary = "elementwise rectifier: 0 for x < 0, else x; NaN stays NaN";
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
  let description = [{
    Hendrycks & Gimpel, 2016. `none`: x (1 + erf(x / sqrt(2))) / 2. `tanh`:
    x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
  }];
  let scalar = [{ return buildGelu(b, x, getApproximate()); }];
  let adjoint = [{ return {GeluGradOp::create(b, dy, x, getApproximate())}; }];
}

def Binade_SiluOp : Binade_UnaryOp<"silu", "Infer"> {
  let summary = "sigmoid linear unit x / (1 + exp(-x)), also called swish";
  let description = "Hendrycks & Gimpel, 2016. -inf gives NaN, as a product.";
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
          [NotDifferentiable]>;

def Binade_ReluGradOp : Binade_UnaryGradOp<"relu_grad", "Clear"> {
  let summary = "gradient of relu: 0 where its result is 0, else the cotangent";
  let description = "`saved` is the result of `relu`; NaN passes the cotangent.";
  let scalar = [{
    Value zero = splat(b, saved, 0.0);
    Value off = arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, saved, zero);
    return arith::SelectOp::create(b, off, splat(b, gradient, 0.0), gradient);
  }];
}

def Binade_GeluGradOp : Binade_UnaryGradOp<"gelu_grad", "Infer",
    (ins DefaultValuedAttr<Binade_ApproximationAttr,
                           "::mlir::binade::Approximation::None">:$approximate)> {
  let summary = "gradient of gelu at the operand of gelu";
  let scalar = [{ return buildGeluGrad(b, gradient, saved, getApproximate()); }];
}

def Binade_SiluGradOp : Binade_UnaryGradOp<"silu_grad", "Infer"> {
  let summary = "gradient of silu at the operand of silu";
  let scalar = [{ return buildSiluGrad(b, gradient, saved); }];
}

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

def Binade_AddOp : Binade_BinaryOp<"add", "Infer", (ins), [Commutative]> {
  let summary = "elementwise sum";
  let scalar = [{ return buildBinary<arith::AddFOp, arith::AddIOp>(b, lhs, rhs); }];
  let adjoint = [{ return {dy, dy}; }];
}

def Binade_SubOp : Binade_BinaryOp<"sub", "Infer"> {
  let summary = "elementwise difference";
  let scalar = [{ return buildBinary<arith::SubFOp, arith::SubIOp>(b, lhs, rhs); }];
  let adjoint = [{ return {dy, NegOp::create(b, dy)}; }];
}

def Binade_MulOp : Binade_BinaryOp<"mul", "Infer", (ins), [Commutative]> {
  let summary = "elementwise product";
  let extraClassDeclaration = "bool isFactor(unsigned) { return true; }";
  let scalar = [{ return buildBinary<arith::MulFOp, arith::MulIOp>(b, lhs, rhs); }];
  let adjoint = [{
    return {MulOp::create(b, dy, rhs), MulOp::create(b, dy, lhs)};
  }];
}

def Binade_DivOp : Binade_BinaryOp<"div", "Infer"> {
  let summary = "elementwise quotient; of integers it is rounded toward 0";
  let description = [{
    An integer divided by 0 is 0, and the least integer divided by -1 is itself.
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
  let summary = "elementwise maximum; NaN if either side is NaN";
  let description = "Equal sides share the gradient; a constant is a bound and gets none.";
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
  let summary = "elementwise minimum; NaN if either side is NaN";
  let description = "Equal sides share the gradient; a constant is a bound and gets none.";
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
  let summary = "elementwise ordered comparison; false where a side is NaN";
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

def Binade_AndOp : Binade_BinaryOp<"and", "Clear", (ins), [Commutative],
                                   BitsTensor> {
  let summary = "elementwise conjunction of bits";
  let scalar = [{ return arith::AndIOp::create(b, lhs, rhs); }];
}

def Binade_OrOp : Binade_BinaryOp<"or", "Clear", (ins), [Commutative],
                                  BitsTensor> {
  let summary = "elementwise disjunction of bits";
  let scalar = [{ return arith::OrIOp::create(b, lhs, rhs); }];
}

def Binade_XorOp : Binade_BinaryOp<"xor", "Clear", (ins), [Commutative],
                                   BitsTensor> {
  let summary = "elementwise exclusive disjunction of bits";
  let scalar = [{ return arith::XOrIOp::create(b, lhs, rhs); }];
}

def Binade_NotOp : Binade_UnaryOp<"not", "Clear", (ins), [], BoolTensor> {
  let summary = "elementwise logical negation";
  let scalar = [{ return arith::XOrIOp::create(b, x, splat(b, x, 1)); }];
}

def Binade_JoinHalvesOp : Binade_ElementwiseOp<"join_halves", "Clear",
    (ins TensorOf<[BF16]>:$high, TensorOf<[I16]>:$low, UnitAttr:$rounded),
    "Value high = operands[0], low = operands[1];"> {
  let summary = "the f32 whose upper half is `high` and whose lower half is `low`";
  let description = [{
    With `rounded`, `high` is one more than the upper half where `low` is negative.
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
  let summary = "elementwise choice: `lhs` where the condition holds, else `rhs`";
  let scalar = [{ return arith::SelectOp::create(b, condition, lhs, rhs); }];
  let adjoint = [{
    SmallVector<Value> sides = selectGradients(b, dy, condition);
    return {Value(), sides[0], sides[1]};
  }];
  let resultType = [{ return operands[1].getType(); }];
}

#endif // BINADE_IR_OPS_ELEMENTWISE_TD
