//===- Monitor.td - what is counted of the values of a step ---------------===//

#ifndef BINADE_IR_OPS_MONITOR_TD
#define BINADE_IR_OPS_MONITOR_TD

include "binade/IR/Ops/Base.td"

def Binade_StatisticsOp : Binade_Op<"statistics", [
    Pure, NotDifferentiable, InferTypeOpAdaptor,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "buildWithoutElements"]>,
    DeclareOpInterfaceMethods<LayoutOpInterface, ["chooseLayouts"]>]> {
  let summary = "what the elements of a tensor are like, in one pass";
  let description = [{
    Has one result for each of `statistics`, in this order. All count in f32, which
    holds every value of the narrower formats, and all are exact: no order of the
    elements changes them.

    | statistic | type | is |
    |---|---|---|
    | `amax` | f32 | the largest magnitude; NaN where an element is |
    | `smallest` | f32 | the smallest magnitude that is not 0; infinity where all are |
    | `zeros` | i64 | how many elements are 0 |
    | `nonfinite` | i64 | how many are infinite or NaN |
    | `exponents` | 256 x i64 | how many have each biased exponent of f32: entry 0 counts zeros and subnormals, entry 127 magnitudes in [1, 2), entry 255 what is not finite |

    Example:

    ```mlir
    %amax, %zeros = binade.statistics <amax|zeros> %x
        : (tensor<8x64xbf16>) -> (tensor<f32>, tensor<i64>)
    ```
  }];
  let arguments = (ins Binade_StatisticAttr:$statistics, FloatTensor:$x);
  let results = (outs Variadic<Tensor>:$values);
  let assemblyFormat =
      "$statistics $x attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    /// Entries of `exponents`.
    static constexpr int64_t kExponents = 256;
    /// Which statistic each result is.
    SmallVector<Statistic> getMembers();
  }];
  let hasVerifier = 1;
}

#endif // BINADE_IR_OPS_MONITOR_TD
