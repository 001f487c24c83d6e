// Grappler's painting on graphs whose results were derived by hand from the steps of its
// auto_mixed_precision.cc. The CHECK line before each op has the result of the steps.

// RUN: split-file %s %t
// RUN: binade-opt %t/chain.mlir --binade-assign-precision=policy=%t/policy.yaml | FileCheck %s --check-prefix=CHAIN
// RUN: binade-opt %t/between.mlir --binade-assign-precision=policy=%t/policy.yaml | FileCheck %s --check-prefix=BETWEEN
// RUN: binade-opt %t/unlisted.mlir --binade-assign-precision=policy=%t/policy.yaml | FileCheck %s --check-prefix=UNLISTED
// RUN: binade-opt %t/pins.mlir --binade-assign-precision=policy=%t/policy.yaml | FileCheck %s --check-prefix=PINS
// RUN: binade-opt %t/none.mlir --binade-assign-precision=policy=%t/policy.yaml | FileCheck %s --check-prefix=NONE

//--- policy.yaml
name: paint
narrow: f16
wide: f32
propagate: painting
rules:
- { match: { op: erf }, class: unlisted, optional: true }

//--- chain.mlir
// deny -> infer -> clear -> infer -> clear -> allow -> infer: deny spreads to the
// second infer op; the clear op after it leads to infer and deny ops only through the
// allow op, so that it stays clear, and is painted like the adjacent allow op. The last
// infer op is not between two allow ops.
// CHAIN-LABEL: @step
func.func @step(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHAIN: binade.exp {{.*}}compute = f32
  %0 = binade.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHAIN: binade.sigmoid {{.*}}compute = f32
  %1 = binade.sigmoid %0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHAIN: binade.abs {{.*}}compute = f32
  %2 = binade.abs %1 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHAIN: binade.tanh {{.*}}compute = f32
  %3 = binade.tanh %2 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHAIN: binade.neg {{.*}}compute = f16
  %4 = binade.neg %3 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHAIN: binade.matmul {{.*}}compute = f16
  %5 = binade.matmul %4, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHAIN: binade.gelu {{.*}}compute = f32
  %6 = binade.gelu %5 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %6 : tensor<8x8xf32>
}

//--- between.mlir
// BETWEEN-LABEL: @step
func.func @step(%x: tensor<8x8xf32>, %r: tensor<8x8xf32>, %w: tensor<8x8xf32>)
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  // Adjacent to the first allow op, moving an argument.
  // BETWEEN: binade.neg {{.*}}compute = f16
  %0 = binade.neg %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // BETWEEN: binade.matmul {{.*}}compute = f16
  %1 = binade.matmul %0, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // Between two allow ops, though it reads an f32 argument: the operand rule would
  // keep it wide.
  // BETWEEN: binade.add {{.*}}compute = f16
  %2 = binade.add %1, %r : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // BETWEEN: binade.relu {{.*}}compute = f16
  %3 = binade.relu %2 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // BETWEEN: binade.matmul {{.*}}compute = f16
  %4 = binade.matmul %3, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // After the last allow op: infer stays wide, and so does what follows it ...
  // BETWEEN: binade.mul {{.*}}compute = f32
  %5 = binade.mul %4, %r : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // BETWEEN: binade.abs {{.*}}compute = f32
  %6 = binade.abs %5 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // ... clear is painted, as far as clear ops reach.
  // BETWEEN: binade.abs {{.*}}compute = f16
  %7 = binade.abs %4 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // BETWEEN: binade.transpose {{.*}}compute = f16
  %8 = binade.transpose %7 {permutation = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // A reader of a painted value paints its other clear operands' producers.
  // BETWEEN: binade.relu {{.*}}compute = f16
  %9 = binade.relu %r : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // BETWEEN: binade.max {{.*}}compute = f16
  %10 = binade.max %8, %9 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // Between allow and deny: the clear op leads to the deny op, but deny spreads
  // forward only.
  // BETWEEN: binade.neg {{.*}}compute = f16
  %11 = binade.neg %4 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // BETWEEN: binade.exp {{.*}}compute = f32
  %12 = binade.exp %11 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %6, %10, %12 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

//--- unlisted.mlir
// An op that is in no list stays wide; paths between allow ops do not lead through it,
// and unlike a deny op it does not make other ops wide.
// UNLISTED-LABEL: @step
func.func @step(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // UNLISTED: binade.matmul {{.*}}compute = f16
  %0 = binade.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // UNLISTED: binade.tanh {{.*}}compute = f32
  %1 = binade.tanh %0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // UNLISTED: binade.erf {{.*}}compute = f32
  %2 = binade.erf %1 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // UNLISTED: binade.sigmoid {{.*}}compute = f32
  %3 = binade.sigmoid %2 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // UNLISTED: binade.matmul {{.*}}compute = f16
  %4 = binade.matmul %3, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // A deny op reads an allow op, and so does a clear op: both edges are cast.
  // UNLISTED: binade.exp {{.*}}compute = f32
  %5 = binade.exp %4 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // UNLISTED: binade.add {{.*}}compute = f32
  %6 = binade.add %5, %4 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // UNLISTED: binade.matmul {{.*}}compute = f16
  %7 = binade.matmul %6, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %7 : tensor<8x8xf32>
}

//--- pins.mlir
// A narrow pin is a seed like an allow op, a wide pin a border like an unlisted op.
// PINS-LABEL: @step
func.func @step(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // PINS: binade.exp {{.*}}<compute = f16, result = f16>
  %0 = binade.exp %x {precision = #binade.precision<compute = f16, result = f16>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // PINS: binade.add {{.*}}compute = f16
  %1 = binade.add %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // PINS: binade.matmul {{.*}}compute = f16
  %2 = binade.matmul %1, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // PINS: binade.relu {{.*}}<compute = f32, result = f32>
  %3 = binade.relu %2 {precision = #binade.precision<compute = f32, result = f32>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // PINS: binade.add {{.*}}compute = f32
  %4 = binade.add %3, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // PINS: binade.matmul {{.*}}compute = f16
  %5 = binade.matmul %4, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %5 : tensor<8x8xf32>
}

//--- none.mlir
// Without an allow op nothing is narrow.
// NONE: binade.relu {{.*}}compute = f32
func.func @step(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = binade.relu %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
