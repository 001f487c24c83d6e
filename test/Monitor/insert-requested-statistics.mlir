// RUN: binade-opt %s '--binade-insert-requested-statistics=requests=weight:absmax;output,saved/n*:zeros@every=4' | FileCheck %s
// RUN: binade-opt %s --binade-monitor-pipeline=watch=loss:mean | FileCheck %s --check-prefix=LOSS
// RUN: not binade-opt %s '--binade-insert-requested-statistics=requests=weight/none*:norm' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOTHING
// RUN: not binade-opt %s '--binade-insert-requested-statistics=requests=output:lost' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNSUITED
// RUN: not binade-opt %s '--binade-insert-requested-statistics=requests=weight:nrom' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN
// RUN: binade-opt %s --binade-insert-requested-statistics | FileCheck %s --check-prefix=NONE

// Requested statistics are inserted after the ops of the step, in the phase of the value,
// with the interval of their execution. A node has one output, the last op's.

// NONE-NOT: binade.every

// NOTHING: error: --stats 'weight/none*:norm' matches no value of the step
// UNSUITED: error: none of the requested values has the statistic 'lost'
// UNKNOWN: error: --stats 'weight:nrom': no statistic is called 'nrom'; did you mean 'norm'?

// LOSS: binade.every = 1 : i64, binade.name = "loss/loss/mean"

// CHECK-LABEL: func.func @step
// CHECK-SAME:    {binade.every = 1 : i64, binade.name = "weight/w/absmax", binade.role = #binade.role<statistic>}
// CHECK-SAME:    {binade.every = 4 : i64, binade.name = "output/node/zeros"
// CHECK-SAME:    {binade.every = 4 : i64, binade.name = "saved/node/zeros"
// CHECK:         %[[A:.*]] = binade.mul %arg0, %arg1
// CHECK-NEXT:    %[[B:.*]] = binade.mul %[[A]], %arg1
// CHECK:         binade.neg
// CHECK-NEXT:    %[[L:.*]] = binade.reduce_sum
// CHECK-NEXT:    %[[W:.*]] = binade.abs %arg0 {binade.every = 1 : i64}
// CHECK-NEXT:    %[[M:.*]] = binade.reduce_max %[[W]] {axes = array<i64: 0>, binade.every = 1 : i64}
// CHECK:         binade.compare %[[B]], %{{.*}} {{.*}}binade.every = 4 : i64
// CHECK:         return %{{.*}}, %[[L]], %[[M]]
func.func @step(
    %w: tensor<4xf32> {binade.role = #binade.role<parameter>, binade.name = "w"},
    %x: tensor<4xf32> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<4xf32> {binade.role = #binade.role<gradient>, binade.name = "w"},
        tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"}) {
  %a = binade.mul %w, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("/node")
  %b = binade.mul %a, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("/node")
  %s = binade.save %b : (tensor<4xf32>) -> tensor<4xf32> loc("/node")
  %g = binade.neg %s {binade.phase = #binade.phase<backward>}
    : (tensor<4xf32>) -> tensor<4xf32> loc("/node")
  %l = binade.reduce_sum %b {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32> loc("/sum")
  return %g, %l : tensor<4xf32>, tensor<f32>
}
