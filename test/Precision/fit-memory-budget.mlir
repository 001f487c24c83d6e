// RUN: binade-opt %s --binade-fit-memory-budget=budget=100% | FileCheck %s --check-prefix=ALL
// RUN: binade-opt %s --binade-fit-memory-budget=budget=76% | FileCheck %s --check-prefix=EXACT
// RUN: binade-opt %s --binade-fit-memory-budget=budget=60% | FileCheck %s --check-prefix=ONE
// RUN: binade-opt %s --binade-fit-memory-budget=budget=40KiB | FileCheck %s --check-prefix=TWO
// RUN: binade-opt %s --binade-fit-memory-budget="budget=30% recompute-matmuls" | FileCheck %s --check-prefix=MATMULS
// RUN: not binade-opt %s --binade-fit-memory-budget=budget=5% 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not binade-opt %s --binade-fit-memory-budget=budget=much 2>&1 | FileCheck %s --check-prefix=TEXT

// ALL:      binade.saved = [#binade.saved<keep, "matmul at 'a'", tensor<64x96xf32>>,
// ALL-SAME:   #binade.saved<keep, "exp at 'e'", tensor<64x96xf32>>,
// ALL-SAME:   #binade.saved<keep, "matmul at 'b'", tensor<64x96xf32>>,
// ALL-SAME:   #binade.saved<keep, "matmul at 'c'", tensor<64x96xf32>>]

// Exact changes come first: two ops recompute a value from one that is kept.

// EXACT:      <keep, "matmul at 'a'"
// EXACT-SAME: <recompute, "exp at 'e'"
// EXACT-SAME: <keep, "matmul at 'b'"
// EXACT-SAME: <keep, "matmul at 'c'"
// EXACT:      %[[A:.*]] = binade.matmul %arg0, %arg1
// EXACT:      %[[SA:.*]] = binade.save %[[A]]
// EXACT:      %[[T:.*]] = binade.tanh %[[SA]] {binade.phase = #binade.phase<backward>}
// EXACT:      %[[E:.*]] = binade.exp %[[T]] {binade.phase = #binade.phase<backward>}
// EXACT:      binade.matmul %[[E]], %{{.*}} {binade.phase = #binade.phase<backward>, transpose_lhs}

// Then values are quantized, first the one that only one gradient depends on.

// ONE:      <keep, "matmul at 'a'"
// ONE-SAME: <recompute, "exp at 'e'"
// ONE-SAME: <quantize, "matmul at 'b'", tensor<64x96xf32>, <f8E4M3FN, per_group<16>, scale = bf16, rule = amax_offset>>
// ONE-SAME: <keep, "matmul at 'c'"
// ONE:      %[[B:.*]] = binade.matmul %{{.*}}, %arg2
// ONE:      %[[P:.*]]:2 = binade.quantize %[[B]]
// ONE-DAG:  %[[P0:.*]] = binade.save %[[P]]#0
// ONE-DAG:  %[[P1:.*]] = binade.save %[[P]]#1
// ONE:      %[[D:.*]] = binade.dequantize %[[P0]], %[[P1]]
// ONE-SAME:   binade.phase = #binade.phase<backward>
// ONE-NEXT: binade.matmul %[[D]], %{{.*}} {binade.phase = #binade.phase<backward>, transpose_lhs}

// Errors of the others propagate; the value that is read last affects the fewest gradients.

// TWO:      <quantize, "matmul at 'a'"
// TWO-SAME: <recompute, "exp at 'e'"
// TWO-SAME: <quantize, "matmul at 'b'"
// TWO-SAME: <keep, "matmul at 'c'"

// Matmuls are recomputed only if asked for, but not those of which other recomputed values follow.

// MATMULS:      <recompute, "matmul at 'a'"
// MATMULS-SAME: <recompute, "exp at 'e'"
// MATMULS-SAME: <keep, "matmul at 'b'"
// MATMULS-SAME: <recompute, "matmul at 'c'"
// MATMULS:      %[[B:.*]] = binade.matmul %{{.*}}, %arg2
// MATMULS:      %[[SB:.*]] = binade.save %[[B]]
// MATMULS:      %[[C:.*]] = binade.matmul %[[SB]], %arg3 {binade.phase = #binade.phase<backward>}
// MATMULS:      binade.mul %arg4, %[[C]] {binade.phase = #binade.phase<backward>}
// MATMULS:      %[[A:.*]] = binade.matmul %arg0, %arg1 {binade.phase = #binade.phase<backward>}
// MATMULS:      %[[T:.*]] = binade.tanh %[[A]] {binade.phase = #binade.phase<backward>}

// SMALL: error: a budget of 4.8 KiB is too small: of the 96.0 KiB saved for the backward pass, at least 20.2 KiB remain
// TEXT:  expected a budget such as '24MiB' or '60%', got 'much'

func.func @step(%x: tensor<64x96xf32>, %w1: tensor<96x96xf32>, %w2: tensor<96x96xf32>,
                %w3: tensor<96x96xf32>, %dy: tensor<64x96xf32>)
    -> (tensor<64x96xf32>, tensor<96x96xf32>, tensor<96x96xf32>, tensor<96x96xf32>) {
  %a = binade.matmul %x, %w1 : (tensor<64x96xf32>, tensor<96x96xf32>) -> tensor<64x96xf32> loc("a")
  %sa = binade.save %a : (tensor<64x96xf32>) -> tensor<64x96xf32>
  %t = binade.tanh %a : (tensor<64x96xf32>) -> tensor<64x96xf32>
  %e = binade.exp %t : (tensor<64x96xf32>) -> tensor<64x96xf32> loc("e")
  %se = binade.save %e : (tensor<64x96xf32>) -> tensor<64x96xf32>
  %b = binade.matmul %e, %w2 : (tensor<64x96xf32>, tensor<96x96xf32>) -> tensor<64x96xf32> loc("b")
  %sb = binade.save %b : (tensor<64x96xf32>) -> tensor<64x96xf32>
  %c = binade.matmul %b, %w3 : (tensor<64x96xf32>, tensor<96x96xf32>) -> tensor<64x96xf32> loc("c")
  %sc = binade.save %c : (tensor<64x96xf32>) -> tensor<64x96xf32>
  %y = binade.exp %c : (tensor<64x96xf32>) -> tensor<64x96xf32>
  %dc = binade.mul %dy, %sc {binade.phase = #binade.phase<backward>}
    : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  %dw3 = binade.matmul %sb, %dc {binade.phase = #binade.phase<backward>, transpose_lhs}
    : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<96x96xf32>
  %db = binade.matmul %dc, %w3 {binade.phase = #binade.phase<backward>, transpose_rhs}
    : (tensor<64x96xf32>, tensor<96x96xf32>) -> tensor<64x96xf32>
  %dw2 = binade.matmul %se, %db {binade.phase = #binade.phase<backward>, transpose_lhs}
    : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<96x96xf32>
  %de = binade.matmul %db, %w2 {binade.phase = #binade.phase<backward>, transpose_rhs}
    : (tensor<64x96xf32>, tensor<96x96xf32>) -> tensor<64x96xf32>
  %da = binade.mul %de, %sa {binade.phase = #binade.phase<backward>}
    : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  %dw1 = binade.matmul %x, %da {binade.phase = #binade.phase<backward>, transpose_lhs}
    : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<96x96xf32>
  return %y, %dw1, %dw2, %dw3
    : tensor<64x96xf32>, tensor<96x96xf32>, tensor<96x96xf32>, tensor<96x96xf32>
}
