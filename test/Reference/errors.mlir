// Each error names the file, line and column, and what to do is clear from it.

// RUN: not binade-interpret %s --function absent 2>&1 | FileCheck %s --check-prefix=FUNCTION
// FUNCTION: errors.mlir: error: there is no function '@absent' with a body; the module's functions are: missing, random, recursive, other, foreign
// RUN: not binade-interpret %s 2>&1 | FileCheck %s --check-prefix=WHICH
// WHICH: errors.mlir: error: {{.*}}the module's functions are:

// RUN: not binade-interpret %s --function missing 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: errors.mlir:[[#@LINE+1]]:1: error: input 'weight' of type 'tensor<2xf32>' is missing
func.func @missing(%x: tensor<2xf32> {binade.name = "weight"}) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// RUN: not binade-interpret %s --function random 2>&1 | FileCheck %s --check-prefix=RANDOM
// RANDOM: input 'arg0' of type 'tensor<2xf32>' is missing; it is drawn at random when training starts
func.func @random(%x: tensor<2xf32> {binade.init = #binade.random<"normal", 0.0 : f64, 1.0 : f64>}) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// RUN: not binade-interpret %s --function recursive 2>&1 | FileCheck %s --check-prefix=RECURSIVE
// RECURSIVE: errors.mlir:[[#@LINE+6]]:8: error: function '@recursive' calls itself
func.func @recursive() -> tensor<f32> {
  %x = call @other() : () -> tensor<f32>
  return %x : tensor<f32>
}
func.func @other() -> tensor<f32> {
  %x = call @recursive() : () -> tensor<f32>
  return %x : tensor<f32>
}

// RUN: not binade-interpret %s --function foreign 2>&1 | FileCheck %s --check-prefix=FOREIGN
// FOREIGN: errors.mlir:[[#@LINE+2]]:8: error: the reference interpreter does not know 'arith.constant'
func.func @foreign() -> tensor<f32> {
  %x = arith.constant dense<1.0> : tensor<f32>
  return %x : tensor<f32>
}
