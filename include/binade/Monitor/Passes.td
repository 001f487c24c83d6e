//===- Passes.td - passes of the Monitor station --------------------------===//

#ifndef BINADE_MONITOR_PASSES_TD
#define BINADE_MONITOR_PASSES_TD

include "mlir/Pass/PassBase.td"

def InsertStatisticsPass : Pass<"binade-insert-statistics", "::mlir::ModuleOp"> {
  let summary = "count what the values of the step are like";
  let description = [{
    Adds a `binade.statistics` to each value of `@step` whose format can be chosen,
    to the parameters and to the floating-point inputs, and returns what it counts
    as results of role `statistic`, named by statistic and value. Without the option
    nothing is added.

    Example, with `statistics=amax|zeros`:

    ```mlir
    %0 = binade.matmul %x, %w : ...
    %amax, %zeros = binade.statistics <amax|zeros> %0 : ...
    // results "amax forward matmul /fc/MatMul", "zeros forward matmul /fc/MatMul"
    ```
  }];
  let options = [
    Option<"statistics", "statistics", "std::string", /*default=*/"\"\"",
           "What to count: amax|smallest|zeros|nonfinite|exponents, or some of them">,
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

#endif // BINADE_MONITOR_PASSES_TD
