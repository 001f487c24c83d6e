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

def WatchValuesPass : Pass<"binade-watch-values", "::mlir::ModuleOp"> {
  let summary = "compute the statistics that a user or the policy asks for";
  let description = [{
    Adds what each request of `requests`, and of the module's `binade.statistics`, asks
    for behind the ops of `@step`, in the phase of the value and with the attribute
    `binade.every`, and returns it as results of role `statistic` that are named
    `kind/layer/statistic`. `binade list stats` explains kinds and statistics.

    Example, with `requests=weight:absmax@every=10`:

    ```mlir
    %0 = binade.abs %w {binade.every = 10 : i64} : tensor<4x8xf32>
    %1 = binade.reduce_max %0 {axes = array<i64: 0, 1>, binade.every = 10 : i64} : ...
    // result "weight/w/absmax"
    ```
  }];
  let options = [
    Option<"requests", "requests", "std::string", /*default=*/"\"\"",
           "KIND[/GLOB],...:STATISTIC[(FORMAT)],...[@every=N], more behind ';'">,
    Option<"optional", "optional", "std::string", /*default=*/"\"\"",
           "The same, of values that need not be there">,
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

#endif // BINADE_MONITOR_PASSES_TD
