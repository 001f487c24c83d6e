//===- Binary.td - elementwise ops of two and more operands ---------------===//

#ifndef BINADE_IR_OPS_BINARY_TD
#define BINADE_IR_OPS_BINARY_TD

include "binade/IR/Ops/ElementwiseBase.td"

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

def Binade_AddOp : Binade_BinaryOp<"add", "Infer", (ins), [Commutative]> {
  let extraClassDeclaration = [{
    Linearity getLinearity() { return Linearity::Joint; }
    bool hasTerms() { return true; }
    ::std::optional<double> getSign(unsigned) { return 1.0; }
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds);
  }];
  let summary = "elementwise sum";
  let semantics = [{
    `y = lhs + rhs`. Infinities of opposite signs give NaN. Integers wrap around. Both
    gradients are `dy`.
  }];
  let scalar = [{ return buildBinary<arith::AddFOp, arith::AddIOp>(b, lhs, rhs); }];
  let adjoint = [{ return {dy, dy}; }];
}

def Binade_SubOp : Binade_BinaryOp<"sub", "Infer"> {
  let extraClassDeclaration = [{
    Linearity getLinearity() { return Linearity::Joint; }
    bool hasTerms() { return true; }
    ::std::optional<double> getSign(unsigned index) {
      return index == 1 ? -1.0 : 1.0;
    }
  }];
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
  let extraClassDeclaration = [{
    bool isFactor(unsigned) { return true; }
    Linearity getLinearity() { return Linearity::Product; }
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds);
  }];
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
    Linearity getLinearity() { return Linearity::First; }
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds);
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
  let extraClassDeclaration = [{
    bool isSingularAtZero(unsigned) { return true; }
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds);
  }];
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
  let extraClassDeclaration = [{
    bool isBound() { return true; }
    ::std::function<double(double)> getElementMap(unsigned);
    bool isMagnitude(::llvm::function_ref<bool(::mlir::Value)> holds);
  }];
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
  let extraClassDeclaration = [{
    bool isBound() { return true; }
    ::std::function<double(double)> getElementMap(unsigned);
  }];
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
    (ins TensorOf<[BF16]>:$high, TensorOf<[I8, I16]>:$low, UnitAttr:$rounded),
    "Value high = operands[0], low = operands[1];"> {
  let summary = "joins bf16 and the rest of an f32 to that f32";
  let semantics = [{
    The bits of `high` are the upper half of the result, those of `low` the lower half. With
    `rounded`, `high` was rounded to nearest: it is one more than the upper half where
    `low`, as a signed integer, is negative, and the result is corrected. With i16, the op is
    exact.

    If `low` is i8, it is the code of a rounding error. Let h be half the distance between
    bf16 values at w, the value of `high`: 2^(e - 8), where e is the exponent of w, at least
    -126. The result is w + (low / 127) h, rounded to f32 once. The code
    of an f32 x is 127 (x - w) / h, where w is x, rounded to nearest even, and the code is
    rounded to nearest, half away from zero. It is 0 if w is infinite or NaN, and the result
    is w then. The error of the result is at most h / 254 + 2^-16 h.

    The op reads parameters that the masters `split_trunc`, `split_round` and `split_8bit`
    store. It has no gradient.
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
    Value rest = getElementTypeOrSelf(low).getIntOrFloatBitWidth() < 32
                     ? arith::ExtSIOp::create(b, word.getType(), low).getResult()
                     : arith::TruncIOp::create(b, word.getType(), low);
    if (getElementTypeOrSelf(getLow()).isInteger(8))
      return addRoundingError(b, high, rest);
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
  let extraClassDeclaration = [{
    Linearity getLinearity() { return Linearity::Joint; }
    bool hasTerms() { return true; }
    ::std::optional<double> getSign(unsigned) { return 1.0; }
  }];
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

#endif // BINADE_IR_OPS_BINARY_TD
