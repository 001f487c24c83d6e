// RUN: binade-opt %s '--binade-monitor-pipeline=statistics=amax|zeros' | FileCheck %s
// RUN: binade-opt %s --binade-monitor-pipeline | FileCheck %s --check-prefix=NONE
// RUN: not binade-opt %s --binade-monitor-pipeline=statistics=mean 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ERROR

// Values whose format can be chosen are counted after their producer, in its phase;
// integers are not, and saved values are not counted twice. Names distinguish equal ops.

// NONE-NOT: binade.statistics
// ERROR: error: {{.*}}expected statistics such as 'amax|zeros', got 'mean'

// CHECK-LABEL: func.func @step
// CHECK-SAME:    -> (tensor<4xf32>
// CHECK-SAME:      {binade.name = "amax parameter w", binade.role = #binade.role<statistic>}
// CHECK-SAME:      {binade.name = "zeros batch x", binade.role = #binade.role<statistic>}
// CHECK-SAME:      {binade.name = "amax forward mul node", binade.role = #binade.role<statistic>}
// CHECK-SAME:      {binade.name = "zeros forward mul node #2", binade.role = #binade.role<statistic>}
// CHECK-SAME:      {binade.name = "amax backward neg node", binade.role = #binade.role<statistic>}
// CHECK-DAG:     binade.statistics <amax|zeros> %arg0
// CHECK-DAG:     binade.statistics <amax|zeros> %arg1
// CHECK:         %[[A:.*]] = binade.mul %arg0, %arg1
// CHECK-NEXT:    binade.statistics <amax|zeros> %[[A]]
// CHECK:         %[[S:.*]] = binade.save
// CHECK-NEXT:    binade.neg %[[S]]
// CHECK-NEXT:    binade.statistics <amax|zeros> {{.*}} {binade.phase = #binade.phase<backward>}
func.func @step(
    %w: tensor<4xf32> {binade.role = #binade.role<parameter>, binade.name = "w"},
    %x: tensor<4xf32> {binade.role = #binade.role<batch>, binade.name = "x"},
    %i: tensor<4xi64> {binade.role = #binade.role<batch>, binade.name = "i"})
    -> (tensor<4xf32> {binade.role = #binade.role<gradient>, binade.name = "w"}) {
  %a = binade.mul %w, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("node")
  %b = binade.mul %a, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("node")
  %s = binade.save %b : (tensor<4xf32>) -> tensor<4xf32> loc("node")
  %g = binade.neg %s {binade.phase = #binade.phase<backward>}
    : (tensor<4xf32>) -> tensor<4xf32> loc("node")
  return %g : tensor<4xf32>
}
