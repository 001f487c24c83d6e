//===- ElementwiseOpInterface.td - one element in, one element out --------===//

#ifndef BINADE_INTERFACES_ELEMENTWISEOPINTERFACE_TD
#define BINADE_INTERFACES_ELEMENTWISEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op whose result element depends on the operand elements at the same
    index only; operands and the one result have one shape.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits the computation of one element, or of a vector of elements.
        `operands` are scalars or vectors, one per operand: narrow floats have
        been widened to f32 by the caller, who also rounds the f32 result to
        the result's format. Integers come and go without a sign, which the
        tensors' types say, and those of 2 and 4 bits fill a byte; i1 and f64 come
        as they are.
      }],
      "::mlir::Value", "buildScalar",
      (ins "::mlir::ImplicitLocOpBuilder &":$b,
           "::mlir::ValueRange":$operands)>,
  ];
}

#endif // BINADE_INTERFACES_ELEMENTWISEOPINTERFACE_TD
