//===- Passes.td - Kernels passes -----------------------------------------===//

#ifndef BINADE_KERNELS_PASSES_TD
#define BINADE_KERNELS_PASSES_TD

include "mlir/Pass/PassBase.td"

def SumShardsPass : Pass<"binade-sum-shards", "::mlir::ModuleOp"> {
  let summary = "Compute sums over the rows of sharded parameters in two parts";
  let description = [{
    Rules such as LAMB scale an update by norms of the whole parameter. A process that has
    some of its rows knows only a part of the sum, and a sum of such parts would depend on
    how the rows are divided.

    The pass expands updates with a `prepare` whose parameter is a shard
    (`binade.shard`), or has to be computed as its shards are (`binade.row_groups`). A sum
    or mean over all elements becomes a sum for each row, and a sum of these in row order.
    For a shard, the sums of its own rows are written to a buffer `row_sums/<name>/<n>`,
    and those of all rows are read from a buffer `all_row_sums/<name>/<n>`: the caller
    executes the step once to get the first, with a `found_inf` that skips the update,
    exchanges them, and executes it again.

    Example:

    ```mlir
    // Before
    module {
      binade.optimizer @sign {states = [], hypers = [#binade.setting<"lr" = 0.1>]}
      func.func private @sign.scalars(%step: i64, %lr: f64) -> f64 {
        return %lr : f64
      }
      func.func private @sign.prepare(%p: tensor<2xf32>, %g: tensor<2xf32>,
                                      %lr: tensor<f32>) -> tensor<f32> {
        %sum = binade.reduce_sum %p {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
        return %sum : tensor<f32>
      }
      func.func private @sign.update(%p: f32, %g: f32, %lr: f32, %sum: f32) -> f32 {
        %new = arith.mulf %p, %sum : f32
        return %new : f32
      }
      func.func @step(
          %p: tensor<3x4xf32> {binade.role = #binade.role<parameter>, binade.name = "w",
                               binade.shard = array<i64: 2, 8>},
          %g: tensor<3x4xf32> {binade.role = #binade.role<batch>, binade.name = "g"},
          %lr: tensor<f32> {binade.role = #binade.role<batch>, binade.name = "lr"})
          -> (tensor<3x4xf32> {binade.role = #binade.role<parameter>, binade.name = "w"}) {
        %new = binade.optimizer_update @sign %p, %g scalars(%lr) {prepare = @sign.prepare}
            : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
        return %new : tensor<3x4xf32>
      }
    }
    ```

    ```mlir
    // After
    module {
      binade.optimizer @sign {states = [], hypers = [#binade.setting<"lr" = 0.1>]}
      func.func private @sign.scalars(%step: i64, %lr: f64) -> f64 {
        return %lr : f64
      }
      func.func private @sign.prepare(%p: tensor<2xf32>, %g: tensor<2xf32>,
                                      %lr: tensor<f32>) -> tensor<f32> {
        %sum = binade.reduce_sum %p {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
        return %sum : tensor<f32>
      }
      func.func private @sign.update(%p: f32, %g: f32, %lr: f32, %sum: f32) -> f32 {
        %new = arith.mulf %p, %sum : f32
        return %new : f32
      }
      func.func @step(
          %p: tensor<3x4xf32> {binade.role = #binade.role<parameter>, binade.name = "w",
                               binade.shard = array<i64: 2, 8>},
          %own: tensor<3xf32> {binade.role = #binade.role<buffer>,
                               binade.name = "row_sums/w/0"},
          %all: tensor<8xf32> {binade.role = #binade.role<buffer>,
                               binade.name = "all_row_sums/w/0"},
          %g: tensor<3x4xf32> {binade.role = #binade.role<batch>, binade.name = "g"},
          %lr: tensor<f32> {binade.role = #binade.role<batch>, binade.name = "lr"})
          -> (tensor<3x4xf32> {binade.role = #binade.role<parameter>, binade.name = "w"},
              tensor<3xf32> {binade.role = #binade.role<buffer>,
                             binade.name = "row_sums/w/0"}) {
        %0 = binade.reshape %p : (tensor<3x4xf32>) -> tensor<12xf32>
        %1 = binade.reshape %g : (tensor<3x4xf32>) -> tensor<12xf32>
        %2 = binade.reshape %0 : (tensor<12xf32>) -> tensor<3x4xf32>
        %3 = binade.reduce_sum %2 {axes = array<i64: 1>} : (tensor<3x4xf32>) -> tensor<3xf32>
        %4 = binade.reduce_sum %all {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
        %new = binade.optimizer_update @sign %p, %g scalars(%lr) values(%4)
            : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<f32>, tensor<f32>) -> tensor<3x4xf32>
        return %new, %3 : tensor<3x4xf32>, tensor<3xf32>
      }
    }
    ```

    Requires: `binade-append-optimizer`, `binade-materialize-precision`. Run before
    `binade-expand-composites`. A rule that combines rows in another way, such as by a
    matmul, is an error for a shard.

    Preserves: results of parameters without the two attributes.
  }];
}

def ExpandCompositesPass : Pass<"binade-expand-composites", "::mlir::ModuleOp"> {
  let summary = "Decompose ops that are computed by several kernels or library calls";
  let description = [{
    Attention is two matmuls, which a library computes, and a softmax between them, which
    is a generated kernel. Where the target has no single kernel for it, it has to become
    its parts before kernels are formed.

    The pass replaces every op of a program whose schedule is `library` and that has a
    decomposition (`KernelOpInterface::decompose`). Large attention becomes a
    `binade.tile` over heads or queries, so that the matrix of scores never exists as a
    whole. Matmuls and convolutions that the target cannot compute as their decision says
    are decomposed likewise, for example into a `binade.scaled_matmul`.

    Example:

    ```mlir
    // Before
    func.func @step(%q: tensor<2x4x8xbf16>, %k: tensor<2x4x8xbf16>, %v: tensor<2x4x6xbf16>)
        -> tensor<2x4x6xbf16> {
      %y, %lse = binade.attention %q, %k, %v {scale = 0.5}
          : (tensor<2x4x8xbf16>, tensor<2x4x8xbf16>, tensor<2x4x6xbf16>)
            -> (tensor<2x4x6xbf16>, tensor<2x4xf32>)
      return %y : tensor<2x4x6xbf16>
    }
    ```

    ```mlir
    // After
    func.func @step(
        %q: tensor<2x4x8xbf16>, %k: tensor<2x4x8xbf16>, %v: tensor<2x4x6xbf16>)
        -> tensor<2x4x6xbf16> {
      %0 = binade.matmul %q, %k {transpose_rhs}
          : (tensor<2x4x8xbf16>, tensor<2x4x8xbf16>) -> tensor<2x4x4xf32>
      %1 = binade.constant dense<0.5> : tensor<2x4x4xf32>
      %2 = binade.mul %0, %1 : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
      %3 = binade.reduce_max %2 {axes = array<i64: 2>} : (tensor<2x4x4xf32>) -> tensor<2x4xf32>
      %4 = binade.broadcast %3 {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<2x4x4xf32>
      %5 = binade.sub %2, %4 : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
      %6 = binade.exp %5 : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
      %7 = binade.reduce_sum %6 {axes = array<i64: 2>} : (tensor<2x4x4xf32>) -> tensor<2x4xf32>
      %8 = binade.reciprocal %7 : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %9 = binade.broadcast %8 {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<2x4x4xf32>
      %10 = binade.mul %6, %9 : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
      %11 = binade.log %7 : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %12 = binade.add %3, %11 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      %13 = binade.cast %10 : (tensor<2x4x4xf32>) -> tensor<2x4x4xbf16>
      %14 = binade.matmul %13, %v : (tensor<2x4x4xbf16>, tensor<2x4x6xbf16>) -> tensor<2x4x6xbf16>
      return %14 : tensor<2x4x6xbf16>
    }
    ```

    Requires: `binade-materialize-precision`. Run before `binade-form-kernels`.

    Preserves: the formats and the roundings that the op defines; its location and phase.
  }];
}

def FoldEmptyPass : Pass<"binade-fold-empty", "::mlir::ModuleOp"> {
  let summary = "Remove ops on tensors without elements";
  let description = [{
    Tensors with an axis of length 0 are valid, but later passes would each need a case
    for them.

    The pass removes the ops that read or write such a tensor. An op whose results are all
    empty is replaced by operands of the same types, or by constants: all empty tensors of
    one type are equal. An op with an empty operand and a result that has elements is
    replaced by what the op's `buildWithoutElements` emits: the neutral element of its sum
    or maximum, the concatenation of its other operands, or a bias.

    Example:

    ```mlir
    // Before
    func.func @step(%x: tensor<2x3xf32>) -> tensor<3xf32> {
      %0 = binade.slice %x {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
          : (tensor<2x3xf32>) -> tensor<0x3xf32>
      %1 = binade.reduce_sum %0 {axes = array<i64: 0>} : (tensor<0x3xf32>) -> tensor<3xf32>
      return %1 : tensor<3xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(%x: tensor<2x3xf32>) -> tensor<3xf32> {
      %0 = binade.constant dense<0.0> : tensor<3xf32>
      return %0 : tensor<3xf32>
    }
    ```

    Requires: nothing. An op that has no value without elements, such as a lookup in an
    empty table, is an error.

    Preserves: every value that has elements. Afterwards only arguments and results of
    functions are empty.
  }];
}

def ChooseLayoutsPass : Pass<"binade-choose-layouts", "::mlir::ModuleOp"> {
  let summary = "Choose the memory layout of every tensor";
  let description = [{
    Convolutions are faster if the channels are the last axis (NHWC); ONNX graphs have them
    second (NCHW). Transposing around each convolution costs more than it gains, unless the
    ops between convolutions keep the layout.

    The pass visits the ops of each program once, in order. An op that prefers a layout
    (`LayoutOpInterface`) gets it. Ops that commute with a permutation of axes follow their
    operands: elementwise ops as they are; reductions, broadcasts, slices and batch norms
    with their axes renumbered. Where an op only takes row-major tensors, or a value is an
    argument, one `binade.transpose` per value and layout is inserted (a `binade.reshape`
    if only axes of length 1 move). A value that is recomputed at no cost, such as a
    constant, is built in each layout that is needed.

    Example:

    ```mlir
    // Before
    func.func @step(%x: tensor<2x4x5x6xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<2x4xf32> {
      %0 = binade.conv %x, %w {strides = array<i64: 1, 1>, padding_low = array<i64: 0, 0>,
            padding_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1}
          : (tensor<2x4x5x6xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x5x6xf32>
      %1 = binade.relu %0 : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
      %2 = binade.reduce_mean %1 {axes = array<i64: 2, 3>}
          : (tensor<2x4x5x6xf32>) -> tensor<2x4xf32>
      return %2 : tensor<2x4xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(%x: tensor<2x4x5x6xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<2x4xf32> {
      %0 = binade.transpose %x {permutation = array<i64: 0, 2, 3, 1>}
          : (tensor<2x4x5x6xf32>) -> tensor<2x5x6x4xf32>
      %1 = binade.conv %0, %w
          {channels_last, dilations = array<i64: 1, 1>, groups = 1, padding_high = array<i64: 0,
            0>, padding_low = array<i64: 0, 0>, strides = array<i64: 1, 1>}
          : (tensor<2x5x6x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x5x6x4xf32>
      %2 = binade.relu %1 : (tensor<2x5x6x4xf32>) -> tensor<2x5x6x4xf32>
      %3 = binade.reduce_mean %2 {axes = array<i64: 1, 2>}
          : (tensor<2x5x6x4xf32>) -> tensor<2x4xf32>
      return %3 : tensor<2x4xf32>
    }
    ```

    Requires: `@step`. Run before `binade-form-kernels`.

    Preserves: the types of the function and all roundings. The order in which a reduction
    adds its elements may change.
  }];
}

def DeduplicateSavesPass : Pass<"binade-deduplicate-saves", "::mlir::ModuleOp"> {
  let summary = "Save a value for backward once instead of its slices and transposes";
  let description = [{
    The backward pass often reads a value and a transpose of it, or all slices of it. If
    each of these is saved, the same elements are in memory several times.

    The pass saves one of these tensors and computes the others from it, before the first
    backward op that reads them:

    - If the value is an argument, its slices and transposes are computed from the argument.
    - If both the value and a transpose with all its elements are saved, the transpose is
      saved and the value is computed from it by the inverse transpose.
    - Otherwise, if the value is saved anyway, or if two or more of its slices and transposes
      are saved that have together at least as many elements as the value, the value is
      saved. In a transformer this merges the saved queries, keys and values.

    Example:

    ```mlir
    // Before
    func.func @step(%x: tensor<2x8xf32>, %dy: tensor<2x4xf32>)
        -> (tensor<2x4xf32>, tensor<2x4xf32>) {
      %e = binade.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
      %l = binade.slice %e {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
          : (tensor<2x8xf32>) -> tensor<2x4xf32>
      %sl = binade.save %l : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %r = binade.slice %e {offsets = array<i64: 0, 4>, strides = array<i64: 1, 1>}
          : (tensor<2x8xf32>) -> tensor<2x4xf32>
      %sr = binade.save %r : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %dl = binade.mul %dy, %sr {binade.phase = #binade.phase<backward>}
          : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      %dr = binade.mul %dy, %sl {binade.phase = #binade.phase<backward>}
          : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      return %dl, %dr : tensor<2x4xf32>, tensor<2x4xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(
        %x: tensor<2x8xf32>, %dy: tensor<2x4xf32>)
        -> (tensor<2x4xf32>, tensor<2x4xf32>) {
      %0 = binade.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
      %1 = binade.save %0 : (tensor<2x8xf32>) -> tensor<2x8xf32>
      %2 = binade.slice %0 {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
          : (tensor<2x8xf32>) -> tensor<2x4xf32>
      %3 = binade.slice %0 {offsets = array<i64: 0, 4>, strides = array<i64: 1, 1>}
          : (tensor<2x8xf32>) -> tensor<2x4xf32>
      %4 = binade.slice %1
          {binade.phase = #binade.phase<backward>, offsets = array<i64: 0, 4>,
            strides = array<i64: 1, 1>}
          : (tensor<2x8xf32>) -> tensor<2x4xf32>
      %5 = binade.mul %dy, %4 {binade.phase = #binade.phase<backward>}
          : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      %6 = binade.slice %1
          {binade.phase = #binade.phase<backward>, offsets = array<i64: 0, 0>,
            strides = array<i64: 1, 1>}
          : (tensor<2x8xf32>) -> tensor<2x4xf32>
      %7 = binade.mul %dy, %6 {binade.phase = #binade.phase<backward>}
          : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      return %5, %7 : tensor<2x4xf32>, tensor<2x4xf32>
    }
    ```

    Requires: `@step` with `binade.save` (`binade-build-gradient`).

    Preserves: every value, bit for bit.
  }];
}

def RecomputePass : Pass<"binade-recompute", "::mlir::ModuleOp"> {
  let summary = "Recompute elementwise ops in the backward pass instead of saving them";
  let description = [{
    Saving the result of an elementwise op costs memory and a pass over memory. If the
    operands of the op are available in the backward pass anyway, recomputing the op there
    costs less.

    In every program, the pass clones such an op before the first backward op that reads its
    result, and removes the `binade.save`. Views of the result are cloned with it. For a
    broadcast, the operand is saved instead. In a transformer this applies to the output of
    the activation function, which only the gradient of the next weight reads.

    Example:

    ```mlir
    // Before
    func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<4x8xf32>)
        -> (tensor<4x8xf32>, tensor<8x8xf32>) {
      %h = binade.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %sh = binade.save %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %g = binade.gelu %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %sg = binade.save %g : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %dw = binade.matmul %sg, %dy {transpose_lhs, binade.phase = #binade.phase<backward>}
          : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
      %dh = binade.gelu_grad %dy, %sh {binade.phase = #binade.phase<backward>}
          : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      return %dh, %dw : tensor<4x8xf32>, tensor<8x8xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(
        %x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<4x8xf32>)
        -> (tensor<4x8xf32>, tensor<8x8xf32>) {
      %0 = binade.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %1 = binade.save %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %2 = binade.gelu %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %3 = binade.gelu %1 {binade.phase = #binade.phase<backward>}
          : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %4 = binade.matmul %3, %dy {binade.phase = #binade.phase<backward>, transpose_lhs}
          : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
      %5 = binade.gelu_grad %dy, %1 {binade.phase = #binade.phase<backward>}
          : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      return %5, %4 : tensor<4x8xf32>, tensor<8x8xf32>
    }
    ```

    Requires: `@step` with `binade.save`. Run after `binade-deduplicate-saves`.

    Preserves: every value, bit for bit. Matmuls and reductions are not recomputed.
  }];
}

def RecomputeByCostsPass : Pass<"binade-recompute-by-costs", "::mlir::ModuleOp"> {
  let summary = "Recompute saved values in kernels that read what they follow from";
  let description = [{
    The result of an activation function or of a norm is saved for the gradient of the next
    weight, although its operands are saved, too, for the gradient of the function itself.

    On a CPU, and on a GPU whose rates are known (`#binade.target`), the pass recomputes a
    saved value from other saved values, arguments and constants: by elementwise ops and
    lookups, and the elementwise part of norms, whose statistics are saved. It does so
    before the next op of the backward pass that reads one of these values, so that `binade-form-kernels` computes
    both in one kernel, which only writes more; earlier ops that need the value are moved
    after that op. Without such an op, the value is recomputed before its first reader, in a
    kernel of its own.

    A value is recomputed if this takes no longer than a pass over 2.5 bytes of memory for
    each byte that it frees: as one more result of another kernel it takes 1 byte, in a kernel
    of its own 2, if it follows from a value in the same format. Single elementwise ops are
    recomputed in any case, as `binade-recompute` does. Small values are not considered.
    The module's attribute `binade.saved` lists the others of the step. If the
    attribute exists already, a budget has decided for each value, and the pass does nothing.

    On a CPU, whose target is `cpu`, only the bytes count. Large copies of arguments, such
    as weights in bf16, are recomputed, too. A value stays if fewer than 64 ops are between
    its last reader in the forward pass and the first one in the backward pass, and the
    module does not get the attribute.

    Example:

    ```mlir
    // Before
    module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216>} {
      func.func @step(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>,
          %dy: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
        %h = binade.matmul %x, %w
            : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
        %sh = binade.save %h : (tensor<512x512xf32>) -> tensor<512x512xf32>
        %g = binade.gelu %h : (tensor<512x512xf32>) -> tensor<512x512xf32>
        %sg = binade.save %g : (tensor<512x512xf32>) -> tensor<512x512xf32>
        %dw = binade.matmul %sg, %dy {transpose_lhs, binade.phase = #binade.phase<backward>}
            : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
        %dh = binade.gelu_grad %dy, %sh {binade.phase = #binade.phase<backward>}
            : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
        return %dh, %dw : tensor<512x512xf32>, tensor<512x512xf32>
      }
    }
    ```

    ```mlir
    // After
    module attributes {
        binade.saved = [#binade.saved<keep, "matmul", tensor<512x512xf32>>,
                        #binade.saved<recompute, "gelu", tensor<512x512xf32>>],
        binade.target = #binade.target<"cuda:sm_90", piece = 16777216>} {
      func.func @step(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>,
          %dy: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
        %h = binade.matmul %x, %w
            : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
        %sh = binade.save %h : (tensor<512x512xf32>) -> tensor<512x512xf32>
        %g = binade.gelu %h : (tensor<512x512xf32>) -> tensor<512x512xf32>
        %again = binade.gelu %sh {binade.phase = #binade.phase<backward>}
            : (tensor<512x512xf32>) -> tensor<512x512xf32>
        %dh = binade.gelu_grad %dy, %sh {binade.phase = #binade.phase<backward>}
            : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
        %dw = binade.matmul %again, %dy {transpose_lhs, binade.phase = #binade.phase<backward>}
            : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
        return %dh, %dw : tensor<512x512xf32>, tensor<512x512xf32>
      }
    }
    ```

    Requires: `@step` with `binade.save`. Run after `binade-deduplicate-saves`, and before
    `binade-recompute`, which recomputes other values.

    Preserves: every value, bit for bit. Matmuls and reductions are not recomputed.
  }];
  let options = [
    Option<"minBytes", "min-bytes", "uint64_t", /*default=*/"1 << 20",
           "Size of the smallest values that are considered.">,
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def TileRowsPass : Pass<"binade-tile-rows", "::mlir::ModuleOp"> {
  let summary = "Compute large short-lived values in tiles of rows";
  let description = [{
    The logits of a language model, and their gradient, are often the largest tensors of a
    step and live only shortly.

    Where a value of a program has more than `max-elements` elements, and the ops that compute
    it, the ops that read it and all ops between them can be computed for some rows at a
    time (`KernelOpInterface::getRows`), the pass makes them the body of a `binade.tile`. For
    logits these ops are the last matmul, the cross-entropy, its gradient, and the two
    matmuls that read that gradient. A contraction over the rows is summed in f32 over all
    tiles and rounded once. Nothing is computed twice. Statistics (`binade.every`) of a
    tiled value become results of the tile.

    On a CPU, tiles are equal and have at most `max-elements` elements. On a GPU the pass
    predicts the time of the ops for each number of tiles, from the rates of the chip in
    `lib/Costs/Chips`, and takes the smallest tiles that are at most 2 % slower than the
    fastest. The last tile may be shorter than the others; because it has kernels of its
    own, equal tiles are preferred if they are at most half larger. On a GPU the pass tiles
    a value only if that is at least four times as large as the results that remain,
    because tiles save little memory otherwise.

    Example:

    ```mlir
    // Before: --binade-tile-rows="max-elements=64 min-rows=4"
    func.func @step(%h: tensor<16x8xf32>, %w: tensor<8x32xf32>) -> tensor<16x8xf32> {
      %logits = binade.matmul %h, %w : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
      %e = binade.exp %logits : (tensor<16x32xf32>) -> tensor<16x32xf32>
      %y = binade.matmul %e, %w {transpose_rhs}
          : (tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<16x8xf32>
      return %y : tensor<16x8xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(%h: tensor<16x8xf32>, %w: tensor<8x32xf32>) -> tensor<16x8xf32> {
      %0 = binade.tile 4 slices 1 joins 1(%h, %w) {
      ^bb0(%rows: tensor<4x8xf32>, %all: tensor<8x32xf32>):
        %1 = binade.matmul %rows, %all : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
        %2 = binade.exp %1 : (tensor<4x32xf32>) -> tensor<4x32xf32>
        %3 = binade.matmul %2, %all {transpose_rhs}
            : (tensor<4x32xf32>, tensor<8x32xf32>) -> tensor<4x8xf32>
        binade.yield %3 : tensor<4x8xf32>
      } : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x8xf32>
      return %0 : tensor<16x8xf32>
    }
    ```

    Requires: `@step`. Run after `binade-expand-composites` and before
    `binade-form-kernels`.

    Preserves: all roundings. The order in which a contraction over the rows is summed may
    change.
  }];
  let options = [
    Option<"maxElements", "max-elements", "int64_t", /*default=*/"1 << 22",
           "Largest number of elements of a value that is not tiled, and of a tile on a CPU. "
           "The limit of the module's target, if it has one, has precedence.">,
    Option<"minRows", "min-rows", "int64_t", /*default=*/"128",
           "Smallest number of rows of a tile, because matmuls with fewer rows are slow.">,
  ];
}

def FuseMovementIntoTilesPass : Pass<"binade-fuse-movement-into-tiles", "::mlir::ModuleOp"> {
  let summary = "Move slices and transposes into the tiles that read or write them";
  let description = [{
    A slice or transpose outside a `binade.tile` is a copy of a whole tensor in memory.
    Inside the tile it is a copy of one piece, which stays in a cache.

    The pass moves an op that only moves elements, and none from one row to another, into
    the tile that is the only reader of its result, or whose results are its only operands.

    Example:

    ```mlir
    // Before
    func.func @step(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
      %l = binade.slice %x {offsets = array<i64: 0, 3>, strides = array<i64: 1, 1>}
          : (tensor<4x6xf32>) -> tensor<4x3xf32>
      %y = binade.tile 4 slices 1 joins 1 (%l) {
      ^bb0(%piece: tensor<1x3xf32>):
        %0 = binade.exp %piece : (tensor<1x3xf32>) -> tensor<1x3xf32>
        binade.yield %0 : tensor<1x3xf32>
      } : (tensor<4x3xf32>) -> tensor<4x3xf32>
      return %y : tensor<4x3xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
      %0 = binade.tile 4 slices 1 joins 1(%x) {
      ^bb0(%piece: tensor<1x6xf32>):
        %1 = binade.slice %piece {offsets = array<i64: 0, 3>, strides = array<i64: 1, 1>}
            : (tensor<1x6xf32>) -> tensor<1x3xf32>
        %2 = binade.exp %1 : (tensor<1x3xf32>) -> tensor<1x3xf32>
        binade.yield %2 : tensor<1x3xf32>
      } : (tensor<4x6xf32>) -> tensor<4x3xf32>
      return %0 : tensor<4x3xf32>
    }
    ```

    Requires: `binade-tile-rows` or `binade-expand-composites`, which create tiles.

    Preserves: every value, bit for bit.
  }];
}

def WriteTransposedOperandsPass : Pass<"binade-write-transposed-operands", "::mlir::ModuleOp"> {
  let summary = "Sink transposes of 8-bit operands into the kernels that quantize them";
  let description = [{
    FP8 matrix units of GPUs sum along the rows of both operands. The backward matmuls
    need the quantized operands of the forward matmul transposed, which costs a pass over
    memory per operand.

    On GPUs, the pass moves the transpose of an 8-bit tensor next to the elementwise op
    that quantizes it, so that one kernel writes the tensor and its transpose. If the
    transpose is in the backward pass, after a `binade.save`, the transposed tensor is what
    is saved. The transpose stays where it is if the backward pass also reads the tensor as
    it is, because then both would be saved.

    Example:

    ```mlir
    // Before
    #e4m3 = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216, codes = [f8E4M3FN], multiple = 16>
    module attributes {binade.target = #h100} {
      func.func @step(%x: tensor<64x32xf32>, %s: tensor<f32>)
          -> (tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>) {
        %0 = binade.encode %x, %s {format = #e4m3, saturate}
            : (tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf8E4M3FN>
        %1 = binade.save %0 : (tensor<64x32xf8E4M3FN>) -> tensor<64x32xf8E4M3FN>
        %2 = binade.transpose %1
            {permutation = array<i64: 1, 0>, binade.phase = #binade.phase<backward>}
            : (tensor<64x32xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
        return %0, %2 : tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>
      }
    }
    ```

    ```mlir
    // After
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216, codes = [f8E4M3FN], multiple = 16>
    module attributes {binade.target = #h100} {
      func.func @step(
          %x: tensor<64x32xf32>, %s: tensor<f32>)
          -> (tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>) {
        %0 = binade.encode %x, %s
            {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>, saturate}
            : (tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf8E4M3FN>
        %1 = binade.transpose %0 {permutation = array<i64: 1, 0>}
            : (tensor<64x32xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
        %2 = binade.save %1 : (tensor<32x64xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
        %3 = binade.save %0 : (tensor<64x32xf8E4M3FN>) -> tensor<64x32xf8E4M3FN>
        return %0, %2 : tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>
      }
    }
    ```

    Requires: a module with `binade.target` (`binade-set-cuda-target`). Without it nothing
    changes. Run before `binade-form-kernels`.

    Preserves: every value, bit for bit.
  }];
}

def FoldMovementIntoAttentionPass : Pass<"binade-fold-movement-into-attention", "::mlir::ModuleOp"> {
  let summary = "Let attention kernels read and write strided tensors";
  let description = [{
    Queries, keys and values are often slices or transposes of one tensor. The attention
    kernels of GPUs address their operands by strides, so a copy that makes them contiguous
    is not needed.

    The pass sets the unit attribute `binade.elided` on slices and transposes whose results
    are read only by `binade.attention` or `binade.attention_grad`, directly or through
    reshapes, on transposes that are the only readers of what these write, directly or
    through reshapes, and on concatenations of what these write, such as the gradients of
    query, key and value. An elided op gets no kernel: the record of the attention in the plan
    has the strides. The last axis must stay contiguous.

    Example:

    ```mlir
    // Before
    func.func @step(%x: tensor<64x2x16xbf16>, %k: tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16> {
      %q = binade.transpose %x {permutation = array<i64: 1, 0, 2>}
          : (tensor<64x2x16xbf16>) -> tensor<2x64x16xbf16>
      %y, %lse = binade.attention %q, %k, %k {scale = 0.25}
          : (tensor<2x64x16xbf16>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>)
            -> (tensor<2x64x16xbf16>, tensor<2x64xf32>)
      return %y : tensor<2x64x16xbf16>
    }
    ```

    ```mlir
    // After
    func.func @step(%x: tensor<64x2x16xbf16>, %k: tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16> {
      %0 = binade.transpose %x {binade.elided, permutation = array<i64: 1, 0, 2>}
          : (tensor<64x2x16xbf16>) -> tensor<2x64x16xbf16>
      %y, %lse = binade.attention %0, %k, %k {scale = 0.25}
          : (tensor<2x64x16xbf16>, tensor<2x64x16xbf16>,
            tensor<2x64x16xbf16>) -> (tensor<2x64x16xbf16>, tensor<2x64xf32>)
      return %y : tensor<2x64x16xbf16>
    }
    ```

    Requires: attention that `binade-expand-composites` has kept, because the target has a
    kernel for it.

    Preserves: every value, bit for bit.
  }];
}

def SplitReductionsPass : Pass<"binade-split-reductions", "::mlir::ModuleOp"> {
  let summary = "Reduce small tensors by rows, so that they can share launches";
  let description = [{
    Some optimizers need a norm of each parameter. On a GPU the reduction of a whole tensor
    is a kernel, and a second one that combines partial results: a hundred tensors take two
    hundred launches, most of which are too small to fill the device.

    On GPUs, the pass splits a reduction of all elements into one of rows and one of what
    it leaves, which need no second kernel. `binade-batch-launches` then executes those of
    all tensors of a shape together. The tensor must have at most 32 MiB, follow from
    arguments by elementwise ops, and be one of several with the same reduction; the result
    must be f32 or f64. The order of a sum changes; the mean of rows of equal length is
    that of all elements.

    Example:

    ```mlir
    // Before
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216>
    module attributes {binade.target = #h100} {
      func.func @step(%x: tensor<65536xf32>, %y: tensor<65536xf32>)
          -> (tensor<f32>, tensor<f32>) {
        %a = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<65536xf32>) -> tensor<f32>
        %b = binade.reduce_sum %y {axes = array<i64: 0>} : (tensor<65536xf32>) -> tensor<f32>
        return %a, %b : tensor<f32>, tensor<f32>
      }
    }
    ```

    ```mlir
    // After
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216>
    module attributes {binade.target = #h100} {
      func.func @step(%x: tensor<65536xf32>, %y: tensor<65536xf32>)
          -> (tensor<f32>, tensor<f32>) {
        %0 = binade.reshape %x : (tensor<65536xf32>) -> tensor<16x4096xf32>
        %1 = binade.reduce_sum %0 {axes = array<i64: 1>} : (tensor<16x4096xf32>) -> tensor<16xf32>
        %a = binade.reduce_sum %1 {axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<f32>
        %2 = binade.reshape %y : (tensor<65536xf32>) -> tensor<16x4096xf32>
        %3 = binade.reduce_sum %2 {axes = array<i64: 1>} : (tensor<16x4096xf32>) -> tensor<16xf32>
        %b = binade.reduce_sum %3 {axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<f32>
        return %a, %b : tensor<f32>, tensor<f32>
      }
    }
    ```

    Requires: a target. Run before `binade-hoist-reshapes`, which computes the elementwise
    ops before a reduction in its shape.

    Preserves: modules without a target.
  }];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def HoistReshapesPass : Pass<"binade-hoist-reshapes", "::mlir::ModuleOp"> {
  let summary = "Compute elementwise ops in the shape in which kernels read them";
  let description = [{
    Ops share a kernel only if their loops have one shape. A bias, for example, is added to
    the result of a matmul, which is a matrix; the next op reads the sum as batch, time and
    channels, and the sum would be stored between two kernels.

    On GPUs, where kernels read the result of an elementwise op only through a reshape, the
    pass computes the op in their shape. The reshape moves to the operands, where it is a
    view; a broadcast along the last axes is built in the new shape. Other users get a
    reshape back. An op stays as it is if kernels read it in two shapes. An op that no kernel
    reads is computed in the shape in which other kernels read its operand.

    A reduction of all axes but the last, such as the gradient of a bias, can have the shape
    of what computes its operand: it reads the operand of a reshape that keeps the last
    axis, and reduces all axes before that one. The maximum of such an operand, for a scale
    of the whole tensor, is computed of rows first, and then of these; unless a kernel
    computes the operand by rows, the pass lets both reduce columns.

    Example:

    ```mlir
    // Before
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216>
    module attributes {binade.target = #h100} {
      func.func @step(%m: tensor<8x16xf32>, %bias: tensor<16xf32>, %x: tensor<2x4x16xf32>)
          -> tensor<2x4x16xf32> {
        %b = binade.broadcast %bias {axes = array<i64: 1>} : (tensor<16xf32>) -> tensor<8x16xf32>
        %s = binade.add %m, %b : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
        %r = binade.reshape %s : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
        %y = binade.add %x, %r
            : (tensor<2x4x16xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
        return %y : tensor<2x4x16xf32>
      }
    }
    ```

    ```mlir
    // After
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216>
    module attributes {binade.target = #h100} {
      func.func @step(%m: tensor<8x16xf32>, %bias: tensor<16xf32>, %x: tensor<2x4x16xf32>)
          -> tensor<2x4x16xf32> {
        %b = binade.broadcast %bias {axes = array<i64: 1>} : (tensor<16xf32>) -> tensor<8x16xf32>
        %r = binade.reshape %m : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
        %c = binade.broadcast %bias {axes = array<i64: 2>}
            : (tensor<16xf32>) -> tensor<2x4x16xf32>
        %s = binade.add %r, %c
            : (tensor<2x4x16xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
        %y = binade.add %x, %s
            : (tensor<2x4x16xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
        return %y : tensor<2x4x16xf32>
      }
    }
    ```

    Requires: a module with `binade.target` (`binade-set-cuda-target`). Without it nothing
    changes. Run after `binade-expand-composites`.

    Preserves: every value, bit for bit.
  }];
}

def FuseMovementIntoKernelsPass : Pass<"binade-fuse-movement-into-kernels", "::mlir::ModuleOp"> {
  let summary = "Let kernels read through slices, transposes and concatenations";
  let description = [{
    A slice, transpose or concatenation as a kernel of its own reads and writes a tensor
    only to put its elements elsewhere. Rotary embeddings, for example, take a transpose,
    two slices, and a concatenation of two sums.

    On GPUs, the pass sets the unit attribute `binade.recomputed` on ops that move elements
    and that only kernels read, if the elements of a vector stay together
    (`KernelOpInterface::getRunLength`). The same goes for elementwise ops whose results
    only such a movement reads, unless several kernels read it and would load more bytes
    than they load now. `binade-form-kernels` then clones these ops into each kernel that
    reads them. Elementwise ops before a movement that is stored are marked, too: its own
    kernel computes them.

    Example:

    ```mlir
    // Before
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216>
    module attributes {binade.target = #h100} {
      func.func @step(%x: tensor<4x32xbf16>, %c: tensor<4x16xbf16>) -> tensor<4x32xf32> {
        %l = binade.slice %x {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
            : (tensor<4x32xbf16>) -> tensor<4x16xbf16>
        %r = binade.slice %x {offsets = array<i64: 0, 16>, strides = array<i64: 1, 1>}
            : (tensor<4x32xbf16>) -> tensor<4x16xbf16>
        %p = binade.mul %r, %c : (tensor<4x16xbf16>, tensor<4x16xbf16>) -> tensor<4x16xbf16>
        %s = binade.concat %p, %l {axis = 1}
            : (tensor<4x16xbf16>, tensor<4x16xbf16>) -> tensor<4x32xbf16>
        %y = binade.exp %s : (tensor<4x32xbf16>) -> tensor<4x32xf32>
        return %y : tensor<4x32xf32>
      }
    }
    ```

    ```mlir
    // After
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216>
    module attributes {binade.target = #h100} {
      func.func @step(%x: tensor<4x32xbf16>, %c: tensor<4x16xbf16>) -> tensor<4x32xf32> {
        %l = binade.slice %x
            {binade.recomputed, offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
            : (tensor<4x32xbf16>) -> tensor<4x16xbf16>
        %r = binade.slice %x
            {binade.recomputed, offsets = array<i64: 0, 16>, strides = array<i64: 1, 1>}
            : (tensor<4x32xbf16>) -> tensor<4x16xbf16>
        %p = binade.mul %r, %c {binade.recomputed}
            : (tensor<4x16xbf16>, tensor<4x16xbf16>) -> tensor<4x16xbf16>
        %s = binade.concat %p, %l {axis = 1, binade.recomputed}
            : (tensor<4x16xbf16>, tensor<4x16xbf16>) -> tensor<4x32xbf16>
        %y = binade.exp %s : (tensor<4x32xbf16>) -> tensor<4x32xf32>
        return %y : tensor<4x32xf32>
      }
    }
    ```

    Requires: a module with `binade.target` (`binade-set-cuda-target`). Without it nothing
    changes. Run before `binade-form-kernels`.

    Preserves: every value, bit for bit.
  }];
}

def RecomputeInReadersPass : Pass<"binade-recompute-in-readers", "::mlir::ModuleOp"> {
  let summary = "Let kernels compute values again instead of storing them";
  let description = [{
    A tensor that is quantized by its own largest magnitude takes two kernels: one finds
    the magnitude, the other one quantizes. The first one stores the tensor only for the
    second one to read it.

    On GPUs, the pass finds values that only other kernels of the phase read, and that
    follow from values in memory by a few additions and multiplications. The result of a
    norm, for example, follows from its operand and its statistics, as its decomposition
    shows. Where this moves fewer bytes, these kernels read a copy of the ops, with the unit
    attribute `binade.recomputed`, and the value is not stored.

    Example:

    ```mlir
    // Before
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216>
    module attributes {binade.target = #h100} {
      func.func @step(%x: tensor<8x64xf32>, %w: tensor<64xf32>)
          -> (tensor<8x64xf8E4M3FN>, tensor<8xf32>) {
        %y, %rstd = binade.rms_norm %x, %w {epsilon = 1.0e-5}
            : (tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>)
        %a = binade.abs %y : (tensor<8x64xf32>) -> tensor<8x64xf32>
        %m = binade.reduce_max %a {axes = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
        %l = binade.reduce_max %m {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
        %q = binade.encode %y, %l
            {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>, saturate}
            : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf8E4M3FN>
        return %q, %rstd : tensor<8x64xf8E4M3FN>, tensor<8xf32>
      }
    }
    ```

    ```mlir
    // After
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216>
    module attributes {binade.target = #h100} {
      func.func @step(%x: tensor<8x64xf32>, %w: tensor<64xf32>)
          -> (tensor<8x64xf8E4M3FN>, tensor<8xf32>) {
        %y, %rstd = binade.rms_norm %x, %w {epsilon = 1.0e-5}
            : (tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>)
        %r = binade.broadcast %rstd {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x64xf32>
        %n = binade.mul %x, %r {binade.recomputed}
            : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
        %s = binade.broadcast %w {axes = array<i64: 1>} : (tensor<64xf32>) -> tensor<8x64xf32>
        %z = binade.mul %n, %s {binade.recomputed}
            : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
        %a = binade.abs %y : (tensor<8x64xf32>) -> tensor<8x64xf32>
        %m = binade.reduce_max %a {axes = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
        %l = binade.reduce_max %m {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
        %q = binade.encode %z, %l
            {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>, saturate}
            : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf8E4M3FN>
        return %q, %rstd : tensor<8x64xf8E4M3FN>, tensor<8xf32>
      }
    }
    ```

    Requires: a module with `binade.target` (`binade-set-cuda-target`). Without it nothing
    changes. Run after `binade-fuse-movement-into-kernels` and right before
    `binade-form-kernels`.

    Preserves: every value, bit for bit.
  }];
}

def ReleaseGradientsPass : Pass<"binade-release-gradients", "::mlir::ModuleOp"> {
  let summary = "Update each parameter as soon as its gradient is complete";
  let description = [{
    All updates follow the backward pass, so that at its end all gradients are in memory:
    as many bytes as the parameters have.

    The pass moves each `binade.optimizer_update`, and what only the optimizer phase
    computes for it, to the place where its gradient is complete and no op of the forward
    or backward pass still reads its parameter or states. The memory of the gradient is
    free afterwards. An update gets the attribute `binade.release`; updates with the same
    number share a launch, of at least 1 MiB of gradients, or a sixteenth of all if
    these are fewer bytes. A `binade.gradient_statistics` of all gradients becomes
    one for the gradients of each launch, and a sum of their results.

    Example:

    ```mlir
    // Before
    binade.optimizer @descent {states = [], hypers = []}
    func.func private @descent.scalars(%step: i64) {
      return
    }
    func.func private @descent.update(%p: f32, %g: f32) -> f32 {
      %q = arith.subf %p, %g : f32
      return %q : f32
    }
    func.func @step(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %x: tensor<4x4xf32>)
        -> (tensor<4x4xf32>, tensor<4x4xf32>) {
      %y = binade.matmul %x, %w {transpose_lhs, binade.phase = #binade.phase<backward>}
          : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %z = binade.matmul %x, %y {transpose_lhs, binade.phase = #binade.phase<backward>}
          : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %p = binade.optimizer_update @descent %w, %z {binade.phase = #binade.phase<optimizer>}
          : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %q = binade.optimizer_update @descent %v, %y {binade.phase = #binade.phase<optimizer>}
          : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      return %p, %q : tensor<4x4xf32>, tensor<4x4xf32>
    }
    ```

    ```mlir
    // After
    binade.optimizer @descent {states = [], hypers = []}
    func.func private @descent.scalars(%step: i64) {
      return
    }
    func.func private @descent.update(%p: f32, %g: f32) -> f32 {
      %q = arith.subf %p, %g : f32
      return %q : f32
    }
    func.func @step(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %x: tensor<4x4xf32>)
        -> (tensor<4x4xf32>, tensor<4x4xf32>) {
      %y = binade.matmul %x, %w {binade.phase = #binade.phase<backward>, transpose_lhs}
          : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %q = binade.optimizer_update @descent %v, %y
          {binade.phase = #binade.phase<optimizer>, binade.release = 0 : i64}
          : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %z = binade.matmul %x, %y {binade.phase = #binade.phase<backward>, transpose_lhs}
          : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %p = binade.optimizer_update @descent %w, %z
          {binade.phase = #binade.phase<optimizer>, binade.release = 1 : i64}
          : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      return %p, %q : tensor<4x4xf32>, tensor<4x4xf32>
    }
    ```

    Requires: `@step` in which no update depends on all gradients: gradients are neither
    clipped by their norm, nor summed over batches or processes, nor results of the step,
    and a step with a non-finite gradient is not skipped. Otherwise an error says which
    setting needs all gradients. Run right before `binade-form-kernels`.

    Preserves: parameters, states and losses, bit for bit. The sum of squares in the norm
    of all gradients, which is only reported, is added in another order, in f64.
  }];
}

def FormKernelsPass : Pass<"binade-form-kernels", "::mlir::ModuleOp"> {
  let summary = "Fuse ops into kernels and outline them";
  let description = [{
    Executed one by one, ops would write every intermediate value to memory.

    The pass groups ops and outlines each group as a private function with the attribute
    `binade.kernel` (its schedule), called by a `binade.launch`. A group consists of

    - elementwise ops and row reductions of one shape that are producer and consumer of
      each other,
    - all ops on scalars that are executed together, or
    - updates of parameters (multi-tensor apply).

    Ops that cost nothing (broadcasts, constants, widening casts) are cloned into each
    kernel that reads them. A full reduction joins a kernel that reads the same tensor, and
    ops on the scalar that it returns join the kernel that computes it. Equal functions are
    merged. Library calls (matmuls, convolutions, whole attention) and
    views stay ops. Launches stay close to the order of the ops, which keeps lifetimes
    short.

    Example:

    ```mlir
    // Before
    func.func @step(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
      %0 = binade.broadcast %b {axes = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
      %1 = binade.add %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %2 = binade.relu %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
      return %2 : tensor<4x8xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
      %0 = binade.launch [@add_relu_0](%x, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    func.func private @add_relu_0(
        %x: tensor<4x8xf32>, %b: tensor<8xf32>)
        -> tensor<4x8xf32>
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %0 = binade.broadcast %b {axes = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
      %1 = binade.add %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %2 = binade.relu %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
      return %2 : tensor<4x8xf32>
    }
    ```

    Requires: programs in their final formats and layouts. Composites inside a group are
    decomposed on the way.

    Preserves: all roundings: a value that is bf16 in the IR is rounded to bf16 inside the
    kernel too.
  }];
}

def ChooseAccuracyPass : Pass<"binade-choose-accuracy", "::mlir::ModuleOp"> {
  let summary = "Choose how accurate the functions in kernels are";
  let description = [{
    A polynomial for `exp` that is accurate for f32 takes more instructions than one for a
    result that is rounded to bf16.

    The pass sets the attribute `binade.accuracy` of the ops in kernels whose formula or
    decomposition contains `exp`, `log`, `tanh` or `erf` and whose results all have 16 bits
    or fewer: f16 if a result is f16, otherwise bf16. Ops with a result of f32 do not get
    it, even if the kernel casts this result, and neither do gradients: their terms may
    cancel, which leaves the errors of the functions. The formats of an op alone decide, so
    that fusion changes no bits.

    The emission of kernels copies the attribute to the functions of the math dialect, and
    `binade-expand-math` reads it. `docs/Math.md` has the errors.

    Example:

    ```mlir
    // Before
    func.func private @exp_0(%x: tensor<64xbf16>) -> (tensor<64xbf16>, tensor<64xf32>)
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %0 = binade.exp %x : (tensor<64xbf16>) -> tensor<64xbf16>
      %1 = binade.exp %x : (tensor<64xbf16>) -> tensor<64xf32>
      return %0, %1 : tensor<64xbf16>, tensor<64xf32>
    }
    ```

    ```mlir
    // After
    func.func private @exp_0(%x: tensor<64xbf16>) -> (tensor<64xbf16>, tensor<64xf32>)
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %0 = binade.exp %x {binade.accuracy = bf16} : (tensor<64xbf16>) -> tensor<64xbf16>
      %1 = binade.exp %x : (tensor<64xbf16>) -> tensor<64xf32>
      return %0, %1 : tensor<64xbf16>, tensor<64xf32>
    }
    ```

    Requires: kernels (`binade-form-kernels`).

    Preserves: results of f32, bit for bit. Results of fewer bits may differ in the last
    place, by the errors of `docs/Math.md`.
  }];
}

def BatchLaunchesPass : Pass<"binade-batch-launches", "::mlir::ModuleOp"> {
  let summary = "Merge launches of equal small kernels";
  let description = [{
    A launch takes a few microseconds on a GPU, however small it is. A step of a transformer
    in FP8 finds some hundred scales from their largest magnitudes, and quantizes as many
    weights.

    On GPUs, the pass merges launches of one kernel that move little and do not depend on
    each other, within a program and a phase. The merged launch names the kernel once for
    each of them, with their operands and results one after the other, and is executed
    before the first op that reads a result. The kernel gets the unit attribute
    `binade.batched`: its blocks of threads find their operands in a table, as those of
    multi-tensor kernels do. Kernels with a workspace, and launches in a `binade.tile`, are
    not merged. Launches that depend only on arguments and have small results move to the
    beginning before, so that more launches can be merged.

    Example:

    ```mlir
    // Before
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216>
    module attributes {binade.target = #h100} {
      func.func @step(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
        %0 = binade.launch [@exp_0](%x) : (tensor<64xf32>) -> tensor<64xf32>
        %1 = binade.launch [@exp_0](%y) : (tensor<64xf32>) -> tensor<64xf32>
        return %0, %1 : tensor<64xf32>, tensor<64xf32>
      }
      func.func private @exp_0(%x: tensor<64xf32>) -> tensor<64xf32>
          attributes {binade.kernel = #binade.schedule<elementwise>} {
        %0 = binade.exp %x : (tensor<64xf32>) -> tensor<64xf32>
        return %0 : tensor<64xf32>
      }
    }
    ```

    ```mlir
    // After
    #h100 = #binade.target<"cuda:sm_90", piece = 16777216>
    module attributes {binade.target = #h100} {
      func.func @step(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
        %0:2 = binade.launch [@exp_0, @exp_0](%x, %y)
            : (tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>)
        return %0#0, %0#1 : tensor<64xf32>, tensor<64xf32>
      }
      func.func private @exp_0(%x: tensor<64xf32>) -> tensor<64xf32>
          attributes {binade.batched, binade.kernel = #binade.schedule<elementwise>} {
        %0 = binade.exp %x : (tensor<64xf32>) -> tensor<64xf32>
        return %0 : tensor<64xf32>
      }
    }
    ```

    Requires: launches (`binade-form-kernels`) and a module with `binade.target`
    (`binade-set-cuda-target`). Without it nothing changes.

    Preserves: every value, bit for bit.
  }];
}

#endif // BINADE_KERNELS_PASSES_TD
