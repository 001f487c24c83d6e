// RUN: not binade-opt %s --binade-insert-requested-statistics 2>&1 | FileCheck %s
// RUN: sed 's|weight/none.:norm|weight:nrom|' %s | not binade-opt --binade-insert-requested-statistics 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN

// The error names the setting whose request is invalid.

// CHECK: error: 'statistics' of the policy 'weight/none*:norm' matches no value of the step
// UNKNOWN: error: 'statistics' of the policy 'weight:nrom': no statistic is called 'nrom'
module attributes {binade.statistics = ["weight/none*:norm"]} {
  func.func @step(
      %w: tensor<4xf32> {binade.role = #binade.role<parameter>, binade.name = "w"})
      -> (tensor<4xf32> {binade.role = #binade.role<output>, binade.name = "y"}) {
    %y = binade.neg %w : (tensor<4xf32>) -> tensor<4xf32> loc("/node")
    return %y : tensor<4xf32>
  }
}
