//===- LayoutOpInterface.td - memory layouts ------------------------------===//

#ifndef BINADE_INTERFACES_LAYOUTOPINTERFACE_TD
#define BINADE_INTERFACES_LAYOUTOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def LayoutOpInterface : OpInterface<"LayoutOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op that can compute on tensors whose axes are permuted in memory. It either
    prefers a layout (convolutions) or follows the layout of its operands
    (elementwise ops, casts, reductions, `broadcast`, `slice`, `pad`, `concat`,
    batch norms, `statistics`). All other ops need row-major tensors.
    `binade-choose-layouts` calls the methods.
  }];
  let methods = [
    InterfaceMethod<[{
        Returns the layouts of operands and results in which the op computes. `known`
        has the layouts of its operands, and of its results if it is built for one
        reader; the op need not use them. By default, all operands and results of the
        same rank get the first layout that is known.
      }],
      "::mlir::binade::Layouts", "chooseLayouts",
      (ins "const ::mlir::binade::Layouts &":$known), /*methodBody=*/"",
      /*defaultImplementation=*/[{
        return ::mlir::binade::followLayouts($_op, known);
      }]>,
    InterfaceMethod<[{
        Renumbers the axes in the attributes of the op for the layouts `chosen`. The
        caller changes the operands and the types of the results. Does nothing by
        default.
      }],
      "void", "applyLayouts", (ins "const ::mlir::binade::Layouts &":$chosen),
      /*methodBody=*/"", /*defaultImplementation=*/"(void)chosen;">,
  ];
}

#endif // BINADE_INTERFACES_LAYOUTOPINTERFACE_TD
