// Gradients are summed over ranks where the optimizer reads them.
// RUN: binade-opt %s --split-input-file --binade-exchange-gradients=batches=4 | FileCheck %s --check-prefix=SUM
// RUN: binade-opt %s --split-input-file "--binade-exchange-gradients=batches=4 format=exact bucket-bytes=8" | FileCheck %s --check-prefix=EXACT
// RUN: not binade-opt %s --split-input-file --binade-exchange-gradients=format=f16 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not binade-opt %s --split-input-file "--binade-exchange-gradients=format=exact batches=40000" 2>&1 | FileCheck %s --check-prefix=MANY

// FORMAT: error: expected an exchange in f32, bf16, e4m3, exact or policy, got 'f16'
// MANY: error: an exact sum has at most 32768 batches, got 40000

binade.optimizer @plain {states = [], hypers = []}
func.func private @plain.scalars(%step: i64) {
  return
}
func.func private @plain.update(%p: f32, %g: f32) -> f32 {
  %q = arith.subf %p, %g : f32
  return %q : f32
}

// The gradient of v is complete before that of w.
// SUM-LABEL: func.func @step
// SUM: %[[LATE:.+]] = binade.add %{{.+}}, %{{.+}}
// SUM: %[[EARLY:.+]] = binade.add %{{.+}}, %{{.+}}
// SUM: %[[SUM:.+]]:2 = binade.exchange f32 gradients(%[[LATE]], %[[EARLY]])
// SUM-SAME: buckets = array<i64: 1, 1>
// SUM: binade.gradient_statistics %[[SUM]]#1, %[[SUM]]#0
// SUM: binade.unscale_factor {batches = 4
// SUM: binade.optimizer_update @plain %{{.+}}, %[[SUM]]#1
// SUM: binade.optimizer_update @plain %{{.+}}, %[[SUM]]#0
// SUM-LABEL: func.func @accumulate
// SUM-NOT: binade.exchange

// EXACT-LABEL: func.func @step
// EXACT-SAME: tensor<7xi32> {binade.init = dense<0> : tensor<7xi32>, binade.name = "exchange/0", binade.role = #binade.role<accumulator>}
// EXACT: binade.exchange exact gradients(%{{[^)]+}}) sums(%{{[^)]+}})
// EXACT-SAME: buckets = array<i64: 1, 1>
// EXACT: binade.unscale_factor {batches = 4
// EXACT-LABEL: func.func @accumulate
// EXACT: %[[FIRST:.+]] = binade.exchange_add %{{.+}}, %{{.+}} {{.*}} : (tensor<7xi32>, tensor<2xf32>) -> tensor<7xi32>
// EXACT: %[[SECOND:.+]] = binade.exchange_add
// EXACT: return %[[FIRST]], %[[SECOND]]
func.func @step(
    %w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
    %v: tensor<2xf32> {binade.name = "v", binade.role = #binade.role<parameter>},
    %x: tensor<2xf32> {binade.name = "x", binade.role = #binade.role<batch>})
    -> (tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
        tensor<2xf32> {binade.name = "v", binade.role = #binade.role<parameter>}) {
  %gv = binade.mul %x, %x {binade.phase = #binade.phase<backward>}
      : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %gw = binade.mul %gv, %x {binade.phase = #binade.phase<backward>}
      : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %squares, %found = binade.gradient_statistics %gw, %gv {binade.phase = #binade.phase<optimizer>}
      : (tensor<2xf32>, tensor<2xf32>) -> (tensor<f64>, tensor<i1>)
  %factor = binade.unscale_factor {binade.phase = #binade.phase<optimizer>} : () -> tensor<f32>
  %nw = binade.optimizer_update @plain %w, %gw factors(%factor) skip(%found)
      {binade.phase = #binade.phase<optimizer>}
      : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<i1>) -> tensor<2xf32>
  %nv = binade.optimizer_update @plain %v, %gv factors(%factor) skip(%found)
      {binade.phase = #binade.phase<optimizer>}
      : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<i1>) -> tensor<2xf32>
  return %nw, %nv : tensor<2xf32>, tensor<2xf32>
}
