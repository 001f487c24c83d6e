//===- Passes.td - Monitor passes -----------------------------------------===//

#ifndef BINADE_MONITOR_PASSES_TD
#define BINADE_MONITOR_PASSES_TD

include "mlir/Pass/PassBase.td"

def InsertStatisticsPass : Pass<"binade-insert-statistics", "::mlir::ModuleOp"> {
  let summary = "Record statistics of every value whose format can be chosen";
  let description = [{
    A choice of formats needs the range of each value: its largest and smallest magnitude,
    its zeros and its exponents.

    The pass adds a `binade.statistics` to each value of `@step` whose format a policy can
    choose, to the parameters and to the floating-point inputs, in the phase of the value.
    The statistics are results of role `statistic`, named by statistic and value. Values
    that are saved for backward are counted once. Without the option nothing is added.

    Example:

    ```mlir
    // Before: "--binade-insert-statistics=statistics=amax|zeros"
    func.func @step(%a: tensor<8x4xf32>, %b: tensor<4x2xf32>) -> tensor<8x2xf32> {
      %y = binade.matmul %a, %b : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32> loc("fc")
      return %y : tensor<8x2xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(
        %a: tensor<8x4xf32>, %b: tensor<4x2xf32>)
        -> (tensor<8x2xf32>,
            tensor<f32> {binade.name = "amax forward matmul fc",
                         binade.role = #binade.role<statistic>},
            tensor<i64> {binade.name = "zeros forward matmul fc",
                         binade.role = #binade.role<statistic>}) {
      %0 = binade.matmul %a, %b : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
      %1:2 = binade.statistics <amax|zeros> %0 : (tensor<8x2xf32>) -> (tensor<f32>, tensor<i64>)
      return %0, %1#0, %1#1 : tensor<8x2xf32>, tensor<f32>, tensor<i64>
    }
    ```

    Requires: `@step`.

    Preserves: all other results of the step.
  }];
  let options = [
    Option<"statistics", "statistics", "std::string", /*default=*/"\"\"",
           "Statistics to record, joined by '|': amax, smallest, zeros, nonfinite, "
           "exponents.">,
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def InsertRequestedStatisticsPass : Pass<"binade-insert-requested-statistics", "::mlir::ModuleOp"> {
  let summary = "Compute the statistics that a user or the policy requests";
  let description = [{
    Alarms and plots need statistics of single values, such as the largest weight of a
    layer every ten steps.

    The pass computes the statistics of each request in `requests` and in the module's
    attribute `binade.statistics` with ops of this dialect. They have the phase of the
    value and the attribute `binade.every`, the number of steps between two computations.
    The statistics are results of role `statistic`, named `kind/layer/statistic`.
    `binade list stats` lists kinds and statistics.

    Example:

    ```mlir
    // Before: --binade-insert-requested-statistics=requests=weight:absmax@every=10
    func.func @step(
        %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
        -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
      %0 = binade.neg %w : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(
        %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
        -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
            tensor<f32> {binade.name = "weight/w/absmax",
                         binade.every = 10,
                         binade.role = #binade.role<statistic>}) {
      %0 = binade.neg %w : (tensor<4xf32>) -> tensor<4xf32>
      %1 = binade.abs %w {binade.every = 10} : (tensor<4xf32>) -> tensor<4xf32>
      %2 = binade.reduce_max %1 {axes = array<i64: 0>, binade.every = 10}
          : (tensor<4xf32>) -> tensor<f32>
      return %0, %2 : tensor<4xf32>, tensor<f32>
    }
    ```

    Requires: `@step`. A request in `requests` that matches no value is an error.

    Preserves: all other results of the step.
  }];
  let options = [
    Option<"requests", "requests", "std::string", /*default=*/"\"\"",
           "Requests, separated by ';', each as "
           "KIND[/GLOB],...:STATISTIC[(FORMAT)],...[@every=N].">,
    Option<"optionalRequests", "optional-requests", "std::string", /*default=*/"\"\"",
           "Requests in the same syntax that, unlike those in 'requests', may match no value.">,
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

#endif // BINADE_MONITOR_PASSES_TD
