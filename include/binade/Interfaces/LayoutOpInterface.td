//===- LayoutOpInterface.td - axes in another order -----------------------===//

#ifndef BINADE_INTERFACES_LAYOUTOPINTERFACE_TD
#define BINADE_INTERFACES_LAYOUTOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def LayoutOpInterface : OpInterface<"LayoutOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op that computes the same on tensors whose axes stand in another order. It
    prefers an order, or follows its operands. Ops without this interface, and ops
    that a layout does not fit, take and give row-major tensors.
  }];
  let methods = [
    InterfaceMethod<[{
        The layouts of operands and results in which the op runs. `known` says how its
        operands come, and how its results are wanted where it is built for one reader;
        both may be disregarded. By default, all values of the rank of the first
        layout known have it.
      }],
      "::mlir::binade::Layouts", "chooseLayouts",
      (ins "const ::mlir::binade::Layouts &":$known), /*methodBody=*/"",
      /*defaultImplementation=*/[{
        return ::mlir::binade::followLayouts($_op, known);
      }]>,
    InterfaceMethod<[{
        Changes the attributes that name axes to those of `chosen`. Operands and types
        of results are the caller's.
      }],
      "void", "applyLayouts", (ins "const ::mlir::binade::Layouts &":$chosen),
      /*methodBody=*/"", /*defaultImplementation=*/"(void)chosen;">,
  ];
}

#endif // BINADE_INTERFACES_LAYOUTOPINTERFACE_TD
