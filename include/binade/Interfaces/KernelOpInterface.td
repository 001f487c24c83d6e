//===- KernelOpInterface.td - how an op becomes part of a kernel ----------===//

#ifndef BINADE_INTERFACES_KERNELOPINTERFACE_TD
#define BINADE_INTERFACES_KERNELOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op that runs inside a generated kernel. Kernels are formed by schedule
    class; what the op computes is said once, by its decomposition into
    elementwise ops, `broadcast`, `iota` and the `reduce_*` ops. These
    primitives need no decomposition.
  }];
  let methods = [
    InterfaceMethod<"The loop structure that computes this op.",
      "::mlir::binade::Schedule", "getSchedule">,
    InterfaceMethod<[{
        Whether a kernel that reads the result computes it again instead of
        reading it from memory: index arithmetic, constants, widening casts.
      }],
      "bool", "isRecomputed", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<"What an op that reduces rows takes together.",
      "::mlir::binade::Reduced", "getReduced", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/[{
        auto type = ::llvm::cast<::mlir::RankedTensorType>(
            $_op->getOperand(0).getType());
        return ::mlir::binade::Reduced{{type.getRank() - 1}};
      }]>,
    InterfaceMethod<[{
        How many tensors an op over many tensors treats alike; its operands are
        split evenly among them.
      }],
      "unsigned", "getSegments", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 1;">,
    InterfaceMethod<[{
        The integers that operand `index` may hold where it names rows or
        classes; none for other operands. Kernels report what lies outside;
        data that reach the operand unchanged are checked before they are used,
        and may not count rows from the end.
      }],
      "::std::optional<::mlir::binade::IndexRange>", "getIndexRange",
      (ins "unsigned":$index), /*methodBody=*/"",
      /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<[{
        Whether the result holds the integers of operand 0 as they are, all of
        them and no others: a view does.
      }],
      "bool", "keepsIntegers", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/[{
        return $_op.getSchedule() == ::mlir::binade::Schedule::View;
      }]>,
    InterfaceMethod<[{
        How the op is done for some rows at a time; nothing where it cannot be.
      }],
      "::std::optional<::mlir::binade::Rows>", "getRows", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::binade::getRowsOfElements($_op);
      }]>,
    InterfaceMethod<[{
        Emits the op's primitives at the builder's insertion point and returns
        the values that replace its results. Intermediate values are f32: the
        only rounding to a narrower format is the cast that the result's type
        asks for. Fails for a primitive.
      }],
      "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "decompose",
      (ins "::mlir::ImplicitLocOpBuilder &":$b),
      /*methodBody=*/"", /*defaultImplementation=*/"return ::mlir::failure();">,
    InterfaceMethod<[{
        Emits the values that replace the results where an operand is a tensor
        without elements and a result has some. A sum over nothing is 0: by
        default that is the decomposition, and zeros for a primitive. Fails,
        after an error, where the op needs an element that is missing.
      }],
      "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>",
      "buildWithoutElements", (ins "::mlir::ImplicitLocOpBuilder &":$b),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        auto parts = $_op.decompose(b);
        if (::mlir::succeeded(parts))
          return parts;
        return ::mlir::binade::buildZeros(b, $_op->getResultTypes());
      }]>,
  ];
}

#endif // BINADE_INTERFACES_KERNELOPINTERFACE_TD
