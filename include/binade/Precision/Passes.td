//===- Passes.td - passes of the Precision station ------------------------===//

#ifndef BINADE_PRECISION_PASSES_TD
#define BINADE_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignPrecisionPass : Pass<"binade-assign-precision", "::mlir::ModuleOp"> {
  let summary = "decide the formats of every op";
  let description = [{
    Writes a decision (`#binade.precision`) on each op of `@step` that implements
    `PrecisionOpInterface`, `#binade.storage` on updates of parameters that a rule is
    about, and the policy on the module. No type changes; see
    `binade-materialize-precision`.

    In this order: a decision that is there without a rule is a user's pin and stays;
    then the last rule of the policy that matches; then the op's class. `allow` ops
    are narrow, `deny` and `unlisted` ops wide. What `infer` and `clear` ops are, the
    policy's `propagate` says: `operands` makes them narrow when all floating-point
    values are that they read, constants aside, which is the rule of PyTorch;
    `painting` makes them narrow between two `allow` ops, and `clear` ops beside
    narrow ones, while `deny` spreads forward, which is the way of TensorFlow's
    Grappler.

    A policy whose two formats are equal decides nothing.

    Example, with `policy=bf16-amp`:

    ```mlir
    %0 = binade.matmul %x, %w : ...   // precision = <compute = bf16, accumulate = f32,
                                      //   result = bf16, rule = "class allow">
    %1 = binade.exp %0 : ...          // precision = <compute = f32, result = f32,
                                      //   rule = "class deny">
    ```
  }];
  let options = [
    Option<"policy", "policy", "std::string", /*default=*/"\"fp32\"",
           "Name of a policy, or path of a policy file">,
    Option<"ranges", "ranges", "std::string", /*default=*/"\"\"",
           "File of the ranges of values that a run recorded">,
    ListOption<"states", "states", "std::string",
               "Formats of optimizer states, FORMAT or GLOB:FORMAT">,
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def MaterializePrecisionPass
    : Pass<"binade-materialize-precision", "::mlir::ModuleOp"> {
  let summary = "turn decisions into types, casts and loss scaling";
  let description = [{
    Gives operands and results of `@step`'s ops the formats of their decisions, with
    a `binade.cast` wherever two formats meet; a value is cast once per format. The
    results of the function keep their types, but for parameters and states: these get
    the formats of their updates' decisions, and what `master` keeps beside a parameter
    becomes a state of the function, `master/<name>`, `remainder/<name>` or
    `compensation/<name>`. With a policy that scales the loss, the
    backward part starts from the scale and the optimizer unscales: a constant, or an
    argument with the counters by which it changes.
  }];
}

def DelayScalesPass : Pass<"binade-delay-scales", "::mlir::ModuleOp"> {
  let summary = "keep account of magnitudes for scales that follow from steps before";
  let description = [{
    Gives each `binade.quantize` of `@step` whose format has `history = N` the magnitude
    `amax` from which its scale follows, and makes it state: buffers `amax/<value>` and
    `amax_history/<value>`. Behind a step, `amax` is the largest magnitude of that step
    and the N - 1 before, and stays where that is 0. A step in which the tensor has a NaN
    or an infinity leaves `amax` as it is and counts as 0 in the history. At first the
    scale is 1. As Transformer Engine's DelayedScaling, of which `amax / F` is the scale,
    but for infinities, which stay in its history.
  }];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def FitBudgetPass : Pass<"binade-fit-budget", "::mlir::ModuleOp"> {
  let summary = "fit what waits for the backward part into a budget";
  let description = [{
    Chooses for each value of `@step` that is saved whether it is kept as it is, made
    again in the backward part, or waits as codes of `coat-group`, so that all that
    waits takes no more bytes than `budget`; writes the choices on the module
    (`binade.saved`).

    What is exact comes first. Values that elementwise ops, norms, reductions, lookups
    or copies make of what the backward part has anyway are made again, those first
    that free most bytes for the elements that are read and written. Only then values
    are quantized: first those whose error enters the gradient of one parameter alone,
    as the operands of products do, large ones first; then the others, first those
    that are read last, since an error goes on to all gradients that come later. Pins,
    statistics of rows, integers and tensors of fewer than 4096 elements are not
    quantized. What turns out to be more than needed is undone.

    Run `binade-move-saves` and `binade-recompute` before: what they do costs nothing,
    and a percentage is of what they leave.
  }];
  let options = [
    Option<"budget", "budget", "std::string", /*default=*/"",
           "24MiB, or 60% of what waits without one; nothing for no limit">,
  ];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def SimplifyCastsPass : Pass<"binade-simplify-casts", "::mlir::ModuleOp"> {
  let summary = "remove casts that change no value";
  let description = [{
    A cast to a format that holds every value of the operand's, followed by the cast
    back, is the operand; a cast of such a cast is one cast. Rounding to a format that
    holds every value of what the operand was cast from goes. No other cast does.
  }];
}

def PlaceCastsPass : Pass<"binade-place-casts", "::mlir::func::FuncOp"> {
  let summary = "cast where the fewest bytes move";
  let description = [{
    A cast and an op that only moves data (a reshape, transpose, slice, pad, gather,
    broadcast or save) give the same bits in either order. Casts move past such ops where
    that reads and writes fewer bytes: narrowing casts up, widening casts down, and
    none to where more elements would be cast than that saves. Movers of one value
    to one format share a cast. No cast moves across arithmetic, an op without a
    decision, one whose decision is a pin, or a `binade.save` whose format a rule
    says; decisions of ops that now move another format say so.

    Example:

    ```mlir
    %0 = binade.transpose %x : (tensor<8x64xf32>) -> tensor<64x8xf32>
    %1 = binade.cast %0 : (tensor<64x8xf32>) -> tensor<64x8xbf16>
    // becomes
    %0 = binade.cast %x : (tensor<8x64xf32>) -> tensor<8x64xbf16>
    %1 = binade.transpose %0 : (tensor<8x64xbf16>) -> tensor<64x8xbf16>
    ```
  }];
}

#endif // BINADE_PRECISION_PASSES_TD
