//===- PrecisionOpInterface.td - formats of an op -------------------------===//

#ifndef BINADE_INTERFACES_PRECISIONOPINTERFACE_TD
#define BINADE_INTERFACES_PRECISIONOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op that can compute in more than one floating-point format. Precision
    passes use only this interface and name no op. All ops with an attribute
    `precision` implement it.

    A decision is the op's attribute `precision`. It changes no type; types change
    in `binade-materialize-precision`. The verifier checks its formats and those of
    operands and results (`verifyFormats`).
  }];
  let methods = [
    InterfaceMethod<[{
        Returns the precision class of the op, which a rule of the policy may
        override. `binade-assign-precision` uses it.
      }],
      "::mlir::binade::PrecisionClass", "getPrecisionClass">,
    InterfaceMethod<"Returns the decision, null if there is none. Implemented by the "
                    "attribute `precision`.",
      "::mlir::binade::PrecisionAttr", "getPrecisionAttr">,
    InterfaceMethod<"Sets the decision. Implemented by the attribute `precision`.",
      "void", "setPrecisionAttr", (ins "::mlir::binade::PrecisionAttr":$precision)>,
    InterfaceMethod<[{
        Returns the format in which operand `index` is read: the compute format of the
        decision, f32 (parameters of norms, statistics, and biases that the decision does
        not round), or its own (integers, masks, f64 scalars). By default floats up to
        f32 have the compute format. `binade-materialize-precision` casts by it.
      }],
      "::mlir::binade::FormatRole", "getOperandFormat", (ins "unsigned":$index),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::binade::getDefaultFormatRole(
            $_op->getOperand(index).getType());
      }]>,
    InterfaceMethod<[{
        Returns the format in which result `index` is written: the result format of the
        decision, always f32 (statistics), or its own. The default is as for operands.
        `binade-materialize-precision` casts by it.
      }],
      "::mlir::binade::FormatRole", "getResultFormat", (ins "unsigned":$index),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::binade::getDefaultFormatRole(
            $_op->getResult(index).getType());
      }]>,
    InterfaceMethod<[{
        Returns the role of operand `index` in the model, if the op determines it: the
        table of `gather`, parameters of norms, logits of losses. Otherwise nothing;
        the role then follows from the origin of the operand. Rules of policies match
        roles, and optimizers treat embeddings apart.
      }],
      "::std::optional<::mlir::binade::TensorRole>", "getOperandRole",
      (ins "unsigned":$index), /*methodBody=*/"",
      /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<[{
        Returns whether operand `index` is multiplied element by element, as in `mul` and
        norms. `binade-append-optimizer` takes a vector of parameters there for a
        scale, and any other one for a shift.
      }],
      "bool", "isFactor", (ins "unsigned":$index), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Returns the contracted axis of operand `index`, counted from the last axis, -1.
        Nothing if there is not exactly one. `matmul` implements it;
        `binade-materialize-precision` shares quantization scales along it.
      }],
      "::std::optional<int64_t>", "getSummedAxis", (ins "unsigned":$index),
      /*methodBody=*/"", /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<[{
        Returns the number of multiply-adds of the op, nothing for ops that are not
        contractions. Matmuls, convolutions and attention implement it. Only these have
        an accumulation format, and cost models count by it.
      }],
      "::std::optional<int64_t>", "countMacs", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<[{
        Returns whether the op is infinite or has an infinite gradient if operand `index`
        is 0: divisors, and operands of `log`, `sqrt` and `pow`.
        `binade-assign-precision` then checks that no constant there is rounded to 0.
      }],
      "bool", "isSingularAtZero", (ins "unsigned":$index), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Returns whether a large negative element of an operand does not affect the result,
        as in softmax and in a maximum: then it may be a mask, which a narrow format
        may round to minus infinity. `binade-assign-precision` asks for it.
      }],
      "bool", "ignoresMasked", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Returns how the target of the module computes the op if that differs from its
        decision, for example in another format; otherwise nothing.
        `binade-expand-composites` reports it. Valid until the op is decomposed.
      }],
      "::std::optional<::mlir::binade::Fallback>", "findFallback", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::binade::findDequantized($_op, $_op.getPrecisionAttr());
      }]>,
  ];
  // After the op's own verifier, so that the shapes are valid.
  let verifyWithRegions = 1;
  let verify = "return ::mlir::binade::verifyFormats($_op);";
  let extraClassDeclaration = [{
    /// Whether the op is a contraction, so that its decision has an accumulation
    /// format.
    bool accumulates() { return countMacs().has_value(); }
  }];
}

#endif // BINADE_INTERFACES_PRECISIONOPINTERFACE_TD
