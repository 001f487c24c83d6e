// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK:      binade.optimizer @plain {
// CHECK-SAME:   hypers = [#binade.setting<"lr" = 1.000000e-03 : f64 min 0.000000e+00 : f64 below 1.000000e+00 : f64>]
// CHECK-SAME:   states = [#binade.setting<"last" = 0.000000e+00 : f64>]
binade.optimizer @plain {
  states = [#binade.setting<"last" = 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0 below 1.0>]}

func.func private @plain.scalars(%step: i64, %lr: f64) -> f64 {
  return %lr : f64
}

func.func private @plain.update(%p: f32, %g: f32, %last: f32, %lr: f32) -> (f32, f32) {
  %d = arith.mulf %lr, %g : f32
  %new = arith.subf %p, %d : f32
  return %new, %g : f32, f32
}

// CHECK-LABEL: func.func @update
func.func @update(%p: tensor<8xf32>, %g: tensor<8xbf16>, %last: tensor<8xf32>, %step: tensor<i64>,
                  %lr: tensor<f64>, %factor: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<f64>) {
  // CHECK-NEXT: %[[S:.*]] = binade.optimizer_scalars @plain(%arg3, %arg4) : (tensor<i64>, tensor<f64>) -> tensor<f32>
  %s = binade.optimizer_scalars @plain(%step, %lr) : (tensor<i64>, tensor<f64>) -> tensor<f32>
  // CHECK-NEXT: %squares, %found_inf = binade.gradient_statistics %arg1 : (tensor<8xbf16>) -> (tensor<f64>, tensor<i1>)
  %squares, %bad = binade.gradient_statistics %g : (tensor<8xbf16>) -> (tensor<f64>, tensor<i1>)
  // CHECK-NEXT: binade.optimizer_update @plain %arg0, %arg1 states(%arg2) scalars(%[[S]]) factors(%arg5) skip(%found_inf)
  %new:2 = binade.optimizer_update @plain %p, %g states(%last) scalars(%s) factors(%factor) skip(%bad)
    : (tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i1>)
      -> (tensor<8xf32>, tensor<8xf32>)
  return %new#0, %new#1, %squares : tensor<8xf32>, tensor<8xf32>, tensor<f64>
}

// CHECK-LABEL: func.func @kept
// CHECK-SAME:    %[[R:[^:]*]]: tensor<8xi16> {binade.init = #binade.companion<"p", split_round>}
func.func @kept(%p: tensor<8xbf16>, %g: tensor<8xf32>, %last: tensor<8xf16>, %lr: tensor<f32>,
                %rest: tensor<8xi16> {binade.init = #binade.companion<"p", split_round>}, %n: tensor<i64>) {
  // CHECK-NEXT: binade.optimizer_update @plain %arg0, %arg1 states(%arg2, %[[R]]) scalars(%arg3) {master = #binade.master<split_round>, storage = #binade.storage<parameter = bf16, master = split_round, states = f16, rule = "a.yaml:4">}
  %new:3 = binade.optimizer_update @plain %p, %g states(%last, %rest) scalars(%lr)
    {master = #binade.master<split_round>, storage = #binade.storage<parameter = bf16, master = split_round, states = f16, rule = "a.yaml:4">}
    : (tensor<8xbf16>, tensor<8xf32>, tensor<8xf16>, tensor<8xi16>, tensor<f32>) -> (tensor<8xbf16>, tensor<8xf16>, tensor<8xi16>)
  // CHECK-NEXT: binade.optimizer_update @plain %arg0, %arg1 states(%arg2) scalars(%arg3) random(%arg5, %arg5) {master = #binade.master<stochastic>}
  %drawn:2 = binade.optimizer_update @plain %p, %g states(%last) scalars(%lr) random(%n, %n) {master = #binade.master<stochastic>}
    : (tensor<8xbf16>, tensor<8xf32>, tensor<8xf16>, tensor<f32>, tensor<i64>, tensor<i64>) -> (tensor<8xbf16>, tensor<8xf16>)
  // CHECK-NEXT: binade.optimizer_update @plain %arg0, %arg1 states(%arg2) scalars(%arg3) random(%arg5, %arg5) {formats = [#binade.stochastic<f16>]}
  %rounded:2 = binade.optimizer_update @plain %p, %g states(%last) scalars(%lr) random(%n, %n) {formats = [#binade.stochastic<f16>]}
    : (tensor<8xbf16>, tensor<8xf32>, tensor<8xf16>, tensor<f32>, tensor<i64>, tensor<i64>) -> (tensor<8xbf16>, tensor<8xf16>)
  return
}

// CHECK: binade.optimizer @whole {{.*}}kinds = [#binade.parameter_kind<matrix>, #binade.parameter_kind<shift>], others = "adamw", {{.*}}variants = {fast = {lr = 1.000000e-01 : f64}}
binade.optimizer @whole {
  states = [#binade.setting<"row" = 0.0>], hypers = [#binade.setting<"lr" = 1.0e-3>],
  kinds = [#binade.parameter_kind<matrix>, #binade.parameter_kind<shift>],
  others = "adamw", variants = {fast = {lr = 0.1}}}
func.func private @whole.prepare(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>, %row: tensor<2xf32>,
                                 %lr: tensor<f32>) -> (tensor<2xf32>, tensor<f32>, tensor<2x3xf32>) {
  return %row, %lr, %g : tensor<2xf32>, tensor<f32>, tensor<2x3xf32>
}
func.func private @whole.update(%p: f32, %g: f32, %lr: f32, %rate: f32, %u: f32) -> f32 {
  return %u : f32
}

// CHECK-LABEL: func.func @prepared
func.func @prepared(%p: tensor<4x8xf32>, %row: tensor<4xf32>, %lr: tensor<f32>) {
  // CHECK-NEXT: binade.optimizer_update @whole %arg0, %arg0 states(%arg1) scalars(%arg2) {prepare = @whole.prepare}
  %new:2 = binade.optimizer_update @whole %p, %p states(%row) scalars(%lr) {prepare = @whole.prepare}
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  // CHECK-NEXT: binade.optimizer_update @whole %arg0, %arg0 scalars(%arg2) values(%arg2, %arg0)
  %done = binade.optimizer_update @whole %p, %p scalars(%lr) values(%lr, %p)
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
