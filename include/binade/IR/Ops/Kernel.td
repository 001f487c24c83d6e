//===- Kernel.td - calls of kernels ---------------------------------------===//

#ifndef BINADE_IR_OPS_KERNEL_TD
#define BINADE_IR_OPS_KERNEL_TD

include "binade/IR/Ops/Base.td"
include "mlir/IR/SymbolInterfaces.td"

def Binade_LaunchOp : Binade_Op<"launch", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one launch of a kernel";
  let description = [{
    The kernel is a private function of `binade` ops with `binade.kernel`, its
    schedule. Equal kernels are one function with many launches.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Tensor>:$operands);
  let results = (outs Variadic<Tensor>:$results);
  let assemblyFormat = [{
    $kernel `(` $operands `)` attr-dict `:` functional-type($operands, results)
  }];
}

#endif // BINADE_IR_OPS_KERNEL_TD
