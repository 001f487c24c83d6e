//===- Passes.td - Precision passes ---------------------------------------===//

#ifndef BINADE_PRECISION_PASSES_TD
#define BINADE_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignPrecisionPass : Pass<"binade-assign-precision", "::mlir::ModuleOp"> {
  let summary = "Assign a number format to every op by a policy";
  let description = [{
    Mixed-precision training computes each op in the format that it tolerates. Which op
    gets which format is the subject of a policy file.

    The pass writes a decision (`#binade.precision`) on each op of `@step` that implements
    `PrecisionOpInterface`, a `#binade.storage` on each `binade.optimizer_update` whose
    parameter or states a rule of the policy matches, and the policy itself on the module
    (`binade.policy`). Types do not change; `binade-materialize-precision` changes them.

    The first of these that applies decides:

    1. A decision that is already there and has no `rule` was written by a user. It stays.
    2. The last rule of the policy that matches the op.
    3. The precision class of the op (`getPrecisionClass`). `allow` ops get the policy's
       narrow format, `deny` and `unlisted` ops the wide format. `infer` and `clear` ops
       follow the policy's `propagate`: with `operands` they are narrow if all their
       floating-point operands other than constants are, as in PyTorch's autocast. With
       `painting` they are narrow if they lie between `allow` ops, and `clear` ops also if
       they are adjacent to narrow ops, while `deny` propagates forward, as in
       TensorFlow's Grappler.

    A policy whose narrow and wide format are equal writes no decisions.

    Example:

    ```mlir
    // Before: --binade-assign-precision=policy=bf16-amp
    func.func @step(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64xf32> {
      %0 = binade.matmul %x, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
      %1 = binade.gelu %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
      %2 = binade.exp %1 : (tensor<8x64xf32>) -> tensor<8x64xf32>
      return %2 : tensor<8x64xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64xf32> {
      %0 = binade.matmul %x, %w
          {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16,
            rule = "class allow">}
          : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
      %1 = binade.gelu %0
          {precision = #binade.precision<compute = bf16, result = bf16, rule = "class infer">}
          : (tensor<8x64xf32>) -> tensor<8x64xf32>
      %2 = binade.exp %1
          {precision = #binade.precision<compute = f32, result = f32, rule = "class deny">}
          : (tensor<8x64xf32>) -> tensor<8x64xf32>
      return %2 : tensor<8x64xf32>
    }
    ```

    Requires: `@step`, in f32.

    Preserves: all types and ops; only attributes are added.
  }];
  let options = [
    Option<"policy", "policy", "std::string", /*default=*/"\"fp32\"",
           "Name of a policy that Binade ships, or path of a policy file.">,
    Option<"ranges", "ranges", "std::string", /*default=*/"\"\"",
           "File of the ranges of values that 'binade train --record' measured.">,
    ListOption<"states", "states", "std::string",
               "Formats of optimizer states, each as FORMAT or GLOB:FORMAT; they override the "
               "policy's.">,
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def MaterializePrecisionPass
    : Pass<"binade-materialize-precision", "::mlir::ModuleOp"> {
  let summary = "Turn precision decisions into types, casts and loss scaling";
  let description = [{
    After `binade-assign-precision` the formats are attributes and every tensor is f32.

    The pass gives the operands and results of the ops of `@step` the formats of their
    decisions, and inserts a `binade.cast` where two formats meet. A value is cast once per
    format. No other pass inserts casts. In the same way it carries out the other decisions:

    - quantized operands: `binade.quantize` and `binade.dequantize`;
    - quantized values that are saved for backward: the quantized tensor and its scales are
      saved, and backward ops read the dequantized tensor;
    - scaled operands of matmuls and convolutions: a multiplication by a power of two and a
      cast, from which 8-bit formats saturate; the result is divided by the powers of both
      operands;
    - clamped results: infinities become the largest finite values;
    - stored formats of parameters and optimizer states (`#binade.storage`). The master
      weight, the low half of an f32, the Kahan compensation, or the residual becomes an
      optimizer state, `master/<name>`, `remainder/<name>`, `compensation/<name>` or
      `residual/<name>`;
    - loss scaling: `binade.gradient_seed` gets the scale as operand, and
      `binade.unscale_factor` divides by it. A static scale is a constant; a dynamic scale
      and its counters are arguments that `binade.update_scale` advances.

    Example:

    ```mlir
    // Before
    #bf16 = #binade.precision<compute = bf16, accumulate = f32, result = bf16, rule = "allow">
    #f32 = #binade.precision<compute = f32, result = f32, rule = "deny">
    #policy = #binade.policy<name = "p", hash = "0", text = "{name: p, narrow: bf16, wide: f32}">
    module attributes {binade.policy = #policy} {
      func.func @step(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64xf32> {
        %0 = binade.matmul %x, %w {precision = #bf16}
            : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
        %1 = binade.exp %0 {precision = #f32} : (tensor<8x64xf32>) -> tensor<8x64xf32>
        return %1 : tensor<8x64xf32>
      }
    }
    ```

    ```mlir
    // After
    func.func @step(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64xf32> {
      %0 = binade.cast %w : (tensor<64x64xf32>) -> tensor<64x64xbf16>
      %1 = binade.cast %x : (tensor<8x64xf32>) -> tensor<8x64xbf16>
      %2 = binade.matmul %1, %0
          {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16,
            rule = "allow">}
          : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
      %3 = binade.cast %2 : (tensor<8x64xbf16>) -> tensor<8x64xf32>
      %4 = binade.exp %3
          {precision = #binade.precision<compute = f32, result = f32, rule = "deny">}
          : (tensor<8x64xf32>) -> tensor<8x64xf32>
      return %4 : tensor<8x64xf32>
    }
    ```

    Requires: `@step` with decisions and a module with a policy
    (`binade-assign-precision`).

    Preserves: the types of arguments and results of the function, except for parameters
    and optimizer states. The decisions stay on the ops as a record; a second run changes
    nothing.
  }];
}

def UseDelayedScalingPass : Pass<"binade-use-delayed-scaling", "::mlir::ModuleOp"> {
  let summary = "Compute quantization scales from the magnitudes of previous steps";
  let description = [{
    A scale that follows from the tensor itself needs two passes over the tensor: one for
    its largest magnitude (absmax), one to quantize. Delayed scaling uses the magnitudes of
    previous steps instead.

    The pass gives each `binade.quantize` of `@step` whose format has `history = N` the
    operand `amax`. It adds the buffers `amax/<value>`, from which the scale follows, and
    `amax_history/<value>`, the absmax of the last N - 1 steps. After a step, `amax` is the
    maximum of the absmax of this step and of the history. It keeps its value if this
    maximum is 0, or if the tensor has a NaN or an infinity; such a tensor enters the history
    as 0. The first scale is 1. This is the DelayedScaling of Transformer Engine, whose history,
    unlike this one, also keeps infinities.

    Example:

    ```mlir
    // Before
    #delayed = #binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse, history = 4>
    func.func @step(%x: tensor<4xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<4xf8E4M3FN>, tensor<f32>) {
      %h = binade.neg %x : (tensor<4xf32>) -> tensor<4xf32> loc("h")
      %q:2 = binade.quantize %h {format = #delayed, saturate}
          : (tensor<4xf32>) -> (tensor<4xf8E4M3FN>, tensor<f32>)
      return %q#0, %q#1 : tensor<4xf8E4M3FN>, tensor<f32>
    }
    ```

    ```mlir
    // After
    func.func @step(
        %amax: tensor<f32> {binade.name = "amax/forward neg h in f8E4M3FN",
                            binade.init = dense<448.0> : tensor<f32>,
                            binade.role = #binade.role<buffer>},
        %amax_history: tensor<3xf32> {binade.name = "amax_history/forward neg h in f8E4M3FN",
                                      binade.init = dense<0.0> : tensor<3xf32>,
                                      binade.role = #binade.role<buffer>},
        %x: tensor<4xf32> {binade.name = "x", binade.role = #binade.role<batch>})
        -> (tensor<4xf8E4M3FN>,
            tensor<f32>,
            tensor<3xf32> {binade.name = "amax_history/forward neg h in f8E4M3FN",
                           binade.role = #binade.role<buffer>},
            tensor<f32> {binade.name = "amax/forward neg h in f8E4M3FN",
                         binade.role = #binade.role<buffer>}) {
      %0 = binade.neg %x : (tensor<4xf32>) -> tensor<4xf32>
      %1:2 = binade.quantize %0 by %amax
          {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse,
            history = 4>, saturate}
          : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf8E4M3FN>, tensor<f32>)
      %2 = binade.abs %0 : (tensor<4xf32>) -> tensor<4xf32>
      %3 = binade.reduce_max %2 {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      %4 = binade.constant dense<3.40282347E+38> : tensor<f32>
      %5 = binade.compare %3, %4 {comparison = #binade.comparison<less_equal>}
          : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = binade.constant dense<0.0> : tensor<f32>
      %7 = binade.select %5, %3, %6 : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %8 = binade.reduce_max %amax_history {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
      %9 = binade.max %7, %8 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %10 = binade.reshape %7 : (tensor<f32>) -> tensor<1xf32>
      %11 = binade.slice %amax_history {offsets = array<i64: 1>, strides = array<i64: 1>}
          : (tensor<3xf32>) -> tensor<2xf32>
      %12 = binade.concat %11, %10 {axis = 0} : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
      %13 = binade.compare %9, %6 {comparison = #binade.comparison<greater>}
          : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %14 = binade.constant dense<3.40282347E+38> : tensor<f32>
      %15 = binade.compare %9, %14 {comparison = #binade.comparison<less_equal>}
          : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %16 = binade.and %5, %15 : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %17 = binade.and %13, %16 : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %18 = binade.select %17, %9, %amax : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      return %1#0, %1#1, %12, %18 : tensor<4xf8E4M3FN>, tensor<f32>, tensor<3xf32>, tensor<f32>
    }
    ```

    Requires: `binade-materialize-precision`, which inserts `binade.quantize`.

    Preserves: ops whose format has no history.
  }];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def FitMemoryBudgetPass : Pass<"binade-fit-memory-budget", "::mlir::ModuleOp"> {
  let summary = "Recompute or quantize saved values to meet a memory budget";
  let description = [{
    The values that are saved for backward take most of the memory of a training step.

    The pass chooses for each `binade.save` of `@step` whether the value is kept, recomputed
    in the backward pass, or quantized (in the format `coat-group`), until all saved values
    together take at most `budget` bytes. The choices are listed in the module's attribute
    `binade.saved`.

    Recomputation is exact and comes first. It applies to values that elementwise ops,
    norms, reductions, lookups and copies compute from values that are saved anyway, in
    descending order of the bytes that they free per element read and written. With
    `recompute-matmuls`, values that need a matmul or a convolution follow, in descending
    order of the bytes that they free per multiply-add; the values from which one of them
    is recomputed are not recomputed by a matmul themselves. Then values are quantized:
    first those whose error affects the gradient of only one parameter, such as operands of
    matmuls, the largest first; then the others, those that the backward pass reads last
    first, because their error affects the fewest gradients. Decisions of users, statistics
    of rows, integers and tensors of fewer than 4096 elements are not quantized. Choices
    that turn out to be unnecessary are undone.

    Example:

    ```mlir
    // Before: --binade-fit-memory-budget=budget=50%
    func.func @step(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<8x8xf32>)
        -> (tensor<8x8xf32>, tensor<8x8xf32>) {
      %h = binade.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %sh = binade.save %h : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %e = binade.exp %h : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %se = binade.save %e : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %dh = binade.mul %dy, %se {binade.phase = #binade.phase<backward>}
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %dw = binade.mul %dh, %sh {binade.phase = #binade.phase<backward>}
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %e, %dw : tensor<8x8xf32>, tensor<8x8xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(
        %x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<8x8xf32>)
        -> (tensor<8x8xf32>, tensor<8x8xf32>) {
      %0 = binade.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %1 = binade.save %0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %2 = binade.exp %0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %3 = binade.exp %1 {binade.phase = #binade.phase<backward>}
          : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %4 = binade.mul %dy, %3 {binade.phase = #binade.phase<backward>}
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %5 = binade.mul %4, %1 {binade.phase = #binade.phase<backward>}
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %2, %5 : tensor<8x8xf32>, tensor<8x8xf32>
    }
    ```

    Requires: `binade-materialize-precision`, so that sizes are those of the chosen
    formats. Run `binade-deduplicate-saves` and `binade-recompute` before: they save memory at no
    cost, and a budget in percent refers to what they leave. A budget that cannot be met is
    an error.

    Preserves: the results of the forward pass. Gradients change only by quantization.
  }];
  let options = [
    Option<"budget", "budget", "std::string", /*default=*/"",
           "Memory limit of the saved values, such as 24MiB, or a percentage of their size "
           "without a limit, such as 60%. Empty means no limit.">,
    Option<"recomputesMatmuls", "recompute-matmuls", "bool", /*default=*/"false",
           "Also recompute values that need a matmul or a convolution, before any value is "
           "quantized.">,
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def SimplifyCastsPass : Pass<"binade-simplify-casts", "::mlir::ModuleOp"> {
  let summary = "Remove casts that do not change values";
  let description = [{
    Casts that were inserted op by op leave pairs that cancel.

    The pass replaces a cast whose operand is another cast. If the format between them
    holds every value of the first operand, the two casts become one, or none if the value
    returns to its first format. A cast that rounds stays, and so does one that makes an
    infinity finite (`saturate`).

    Example:

    ```mlir
    // Before
    func.func @step(%x: tensor<8xbf16>, %y: tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xf32>) {
      %0 = binade.cast %x : (tensor<8xbf16>) -> tensor<8xf32>
      %1 = binade.cast %0 : (tensor<8xf32>) -> tensor<8xbf16>
      %2 = binade.cast %y : (tensor<8xf32>) -> tensor<8xbf16>
      %3 = binade.cast %2 : (tensor<8xbf16>) -> tensor<8xf32>
      return %1, %3 : tensor<8xbf16>, tensor<8xf32>
    }
    ```

    ```mlir
    // After
    func.func @step(%x: tensor<8xbf16>, %y: tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xf32>) {
      %0 = binade.cast %y : (tensor<8xf32>) -> tensor<8xbf16>
      %1 = binade.cast %0 : (tensor<8xbf16>) -> tensor<8xf32>
      return %x, %1 : tensor<8xbf16>, tensor<8xf32>
    }
    ```

    Requires: nothing.

    Preserves: every value, bit for bit.
  }];
}

def MoveCastsPass : Pass<"binade-move-casts", "::mlir::func::FuncOp"> {
  let summary = "Move casts across data movement to where they move fewer bytes";
  let description = [{
    A cast commutes with an op that only moves elements: reshape, transpose, slice, pad,
    gather, broadcast and save. Which order reads and writes fewer bytes depends on the
    formats and shapes.

    The pass moves narrowing casts up and widening casts down across such ops where that
    reduces the bytes that are read and written. Several movement ops of one value to one
    format share a cast. A cast does not move across arithmetic, an op without a decision
    or with a decision of a user, or a `binade.save` whose format a rule of the policy sets.

    Example: the transpose moves half as many bytes.

    ```mlir
    // Before
    #f32 = #binade.precision<compute = f32, result = f32, rule = "class clear">
    func.func @step(%x: tensor<8x64xf32>) -> tensor<64x8xbf16> {
      %0 = binade.transpose %x {permutation = array<i64: 1, 0>, precision = #f32}
          : (tensor<8x64xf32>) -> tensor<64x8xf32>
      %1 = binade.cast %0 : (tensor<64x8xf32>) -> tensor<64x8xbf16>
      return %1 : tensor<64x8xbf16>
    }
    ```

    ```mlir
    // After
    func.func @step(%x: tensor<8x64xf32>) -> tensor<64x8xbf16> {
      %0 = binade.cast %x : (tensor<8x64xf32>) -> tensor<8x64xbf16>
      %1 = binade.transpose %0
          {permutation = array<i64: 1, 0>, precision = #binade.precision<compute = bf16,
            result = bf16, rule = "class clear">}
          : (tensor<8x64xbf16>) -> tensor<64x8xbf16>
      return %1 : tensor<64x8xbf16>
    }
    ```

    Requires: `binade-materialize-precision`.

    Preserves: every value, bit for bit. The decision of an op that now moves another
    format is updated.
  }];
}

#endif // BINADE_PRECISION_PASSES_TD
