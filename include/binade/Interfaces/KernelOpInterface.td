//===- KernelOpInterface.td - lowering of ops to kernels ------------------===//

#ifndef BINADE_INTERFACES_KERNELOPINTERFACE_TD
#define BINADE_INTERFACES_KERNELOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::mlir::binade";
  let description = [{
    An op that a generated kernel, a library call or a view computes. Every op of
    this dialect implements it, except for `launch`, `tile`, `yield` and
    `optimizer`. The schedule says which loops compute the op. What it computes is
    defined by its decomposition into primitives, which have no decomposition:
    elementwise ops, `broadcast`, `iota`, the `reduce_*` ops, data movement and
    library calls.
  }];
  let methods = [
    InterfaceMethod<[{
        Returns the loop structure that computes the op, or that it is a library
        call or a view. `binade-form-kernels` groups ops by it, and most passes of
        the kernels phase ask for it.
      }],
      "::mlir::binade::Schedule", "getSchedule">,
    InterfaceMethod<[{
        Returns whether every kernel that reads the result computes it itself
        instead of reading it from memory. True for `constant`, `iota`,
        `broadcast`, `dequantize` and widening casts. `binade-form-kernels` and
        `binade-choose-layouts` clone such ops, and `binade-recompute` and
        `binade-fit-memory-budget` do not save them.
      }],
      "bool", "isRecomputed", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Returns the elements that a reduction combines: axes, or groups of the last
        axis. The last axis by default; the `reduce_*` ops and `group_max` have
        others. `binade-form-kernels` fuses reductions that combine the same
        elements, and the emission of kernels chooses loops by it.
      }],
      "::mlir::binade::Reduced", "getReduced", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/[{
        auto type = ::llvm::cast<::mlir::RankedTensorType>(
            $_op->getOperand(0).getType());
        return ::mlir::binade::Reduced{{type.getRank() - 1}};
      }]>,
    InterfaceMethod<[{
        Returns whether a primitive adds elements of an operand, in an order that
        each target chooses, so that results of targets may differ. The `reduce_sum`
        and `reduce_mean` ops, `gather_grad` and `gradient_statistics` do. Used by
        the verification of records.
      }],
      "bool", "sumsElements", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Returns the number of tensors of a multi-tensor op, among which its
        operands are divided evenly; 1 by default. `gradient_statistics` has more.
        `binade-form-kernels` makes one kernel of a segment.
      }],
      "unsigned", "getSegments", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 1;">,
    InterfaceMethod<[{
        Returns the range of legal values of operand `index` if it holds indices
        of rows or classes, otherwise nothing. `gather`, `gather_grad`,
        `cross_entropy`, its gradient and `check_index` have such operands.
        Kernels report indices out of range. The plan lists the inputs of the
        step that reach such an operand unchanged, so that the runtime checks the
        data before it runs the step; these may not be negative.
      }],
      "::std::optional<::mlir::binade::IndexRange>", "getIndexRange",
      (ins "unsigned":$index), /*methodBody=*/"",
      /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<[{
        Returns whether the result has the same integers as operand 0. True for
        views, and for casts that change no integer. Used to find the inputs of
        the step that reach an operand with an index range.
      }],
      "bool", "keepsIntegers", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/[{
        return $_op.getSchedule() == ::mlir::binade::Schedule::View;
      }]>,
    InterfaceMethod<[{
        Returns, for an op that only moves elements, how many are moved together:
        from each multiple of this number on, as many elements of the result are
        consecutive in an operand, where the first of them is at such a multiple,
        too. 0 for other ops. `slice`, `transpose` and `concat` implement it.
        `binade-fuse-movement-into-kernels` asks whether vectors that a kernel
        reads stay contiguous.
      }],
      "int64_t", "getRunLength", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        Returns how the op can be computed for some indices of the first axis at a
        time: which operands are cut and whether the partial results are added
        or joined. Nothing if it cannot be. By default elementwise ops can.
        Matmuls, losses and data movement have rules of their own.
        `binade-tile-rows` and `binade-fuse-movement-into-tiles` ask for it.
      }],
      "::std::optional<::mlir::binade::Rows>", "getRows", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::binade::getRowsOfElements($_op);
      }]>,
    InterfaceMethod<[{
        Emits the decomposition of the op at the builder's insertion point, and
        returns the values that replace its results. Intermediate values are
        f32: the only rounding to a narrower format is the one to the type of a
        result. Fails for a primitive. `binade-expand-composites` decomposes
        library calls, the emission of kernels everything else.
      }],
      "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "decompose",
      (ins "::mlir::ImplicitLocOpBuilder &":$b),
      /*methodBody=*/"", /*defaultImplementation=*/"return ::mlir::failure();">,
    InterfaceMethod<[{
        Emits the values that replace the results if an operand is empty and a
        result is not. By default this is the decomposition, and zeros for a
        primitive, because a sum over no elements is 0. Ops with another value,
        such as `reduce_max`, `matmul` with a bias and `concat`, implement it.
        Fails, after an error, if the op needs an element that does not exist.
        `binade-fold-empty` calls it.
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
