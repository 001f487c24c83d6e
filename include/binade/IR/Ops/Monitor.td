//===- Monitor.td - statistics of values ----------------------------------===//

#ifndef BINADE_IR_OPS_MONITOR_TD
#define BINADE_IR_OPS_MONITOR_TD

include "binade/IR/Ops/Base.td"

def Binade_StatisticsOp : Binade_Op<"statistics", [
    Pure, NotDifferentiable, InferTypeOpAdaptor,
    DeclareOpInterfaceMethods<KernelOpInterface,
                              ["getSchedule", "buildWithoutElements"]>,
    DeclareOpInterfaceMethods<LayoutOpInterface, ["chooseLayouts"]>]> {
  let summary = "statistics of the elements of a tensor, in one pass";
  let description = [{
    Has one result for each of `statistics`, in the order of this table. Elements are
    widened to f32. All statistics are exact: they do not depend on the order of the
    elements.

    | statistic | type | value | of an empty tensor |
    |---|---|---|---|
    | `amax` | f32 | largest magnitude; NaN if any element is | 0 |
    | `smallest` | f32 | smallest magnitude that is not 0; infinity if there is none | infinity |
    | `zeros` | i64 | number of elements that are 0 | 0 |
    | `nonfinite` | i64 | number of elements that are infinite or NaN | 0 |
    | `exponents` | 256 x i64 | number of elements with each biased exponent of f32: entry 0 counts zeros and subnormals, entry 127 magnitudes in [1, 2), entry 255 non-finite elements | 0 |

    The op has no gradient.

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
