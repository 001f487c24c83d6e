//===- ElementwiseOpInterface.td - one element in, one element out --------===//

#ifndef BINADE_INTERFACES_ELEMENTWISEOPINTERFACE_TD
#define BINADE_INTERFACES_ELEMENTWISEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op with one result, each element of which depends only on the elements of
    the operands at the same index. Operands and result have one shape. The ops of
    Elementwise.td, `cast`, `bitcast`, `round_to` and `random_uniform` implement it.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits the computation of one element, or of a vector of elements, with
        ops of the arith and math dialects, and returns the result. `operands`
        are scalars or vectors, one per operand. The caller has widened narrow
        floats to f32, and rounds the f32 result to the format of the op's
        result; f64 and i1 are passed as they are. Integers are signless (the
        types of the tensors say whether they are unsigned), and those of 2 and
        4 bits are passed as i8. `binade-emit-kernels` and
        `binade-emit-gpu-kernels` call it, and `binade-split-training-step` to write
        optimizer rules.
      }],
      "::mlir::Value", "buildScalar",
      (ins "::mlir::ImplicitLocOpBuilder &":$b,
           "::mlir::ValueRange":$operands)>,
  ];
}

#endif // BINADE_INTERFACES_ELEMENTWISEOPINTERFACE_TD
