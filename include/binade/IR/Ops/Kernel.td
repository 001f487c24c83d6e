//===- Kernel.td - calls of kernels ---------------------------------------===//

#ifndef BINADE_IR_OPS_KERNEL_TD
#define BINADE_IR_OPS_KERNEL_TD

include "binade/IR/Ops/Base.td"
include "mlir/IR/SymbolInterfaces.td"

def Binade_LaunchOp : Binade_Op<"launch", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one launch of a kernel";
  let description = [{
    A kernel is a private function of `binade` ops with `binade.kernel`, its schedule.
    Equal kernels are one function with many launches.

    Kernels over many tensors are written for one vector of elements (rank 1) and run
    over tensors of any shape. Such a launch names one kernel per segment; operands
    and results stand segment by segment, but for rank-0 results, which reduce over
    all segments and stand once, last.

    Example:

    ```mlir
    %y = binade.launch [@gelu_3](%x) : (tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins TypedArrayAttrBase<FlatSymbolRefAttr, "kernels">:$kernels,
                       Variadic<Tensor>:$operands);
  let results = (outs Variadic<Tensor>:$results);
  let assemblyFormat = [{
    $kernels `(` $operands `)` attr-dict `:` functional-type($operands, results)
  }];
}

#endif // BINADE_IR_OPS_KERNEL_TD
