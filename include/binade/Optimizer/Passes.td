//===- Passes.td - passes of the Optimizer station ------------------------===//

#ifndef BINADE_OPTIMIZER_PASSES_TD
#define BINADE_OPTIMIZER_PASSES_TD

include "mlir/Pass/PassBase.td"

def IdentifyRulesPass : Pass<"binade-identify-rules", "::mlir::ModuleOp"> {
  let summary = "replace rules that came with a graph by those of the library";
  let description = [{
    A rule that parameters of `@gradient` came with (`binade.optimizer`) and that is a
    rule of the library, written as in one of the files under
    `lib/Optimizer/Spellings`, becomes that rule. Its hyper-parameters start from values
    of which every number of the graph follows to the last bit, rounded to f32. It is the
    same function of real numbers; what changes is the rounding: the library computes
    what depends on the step alone in f64, such as 1 - 0.999^t, of which f32 has lost
    some digits.

    A rule that no spelling matches stays.
  }];
}

def AppendOptimizerPass : Pass<"binade-append-optimizer", "::mlir::ModuleOp"> {
  let summary = "append the update of every parameter";
  let description = [{
    Turns `@gradient` into `@step`, a whole training step. Adds optimizer states, the
    step count and hyper-parameters as arguments, one `binade.gradient_statistics`
    over all gradients, the scalars of the rule once per group of parameters, and one
    `binade.optimizer_update` per parameter. A step whose gradients are not all finite
    changes nothing (`on-nonfinite=continue` leaves that out). Metrics are `loss`,
    `grad_norm` (before clipping) and, unless left out, `found_inf`, which is
    `answered_inf` where the rule answers to such gradients (`on-nonfinite=shrink`).

    `optimizer` names a rule that Binade ships, NAME or NAME:VARIANT, or a rule file.
    Without it parameters are updated by the rules that they came with
    (`binade.optimizer`), and by `adamw` where they came with none.
    `settings` are `key=value` for all parameters, `form=NAME` among them, `group` is `GLOB:key=value,...` for those whose
    name matches; the last match wins, and an unmatched glob is an error.

    Example:

    ```
    binade-append-optimizer{optimizer=adamw settings=lr=0.001,weight_decay=0.01
                            group=*.bias:weight_decay=0}
    ```
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", /*default=*/"",
           "Name of a rule, or path of a rule file">,
    ListOption<"settings", "settings", "std::string",
               "Hyper-parameters of all parameters, key=value">,
    ListOption<"groups", "group", "std::string",
               "Hyper-parameters by name, GLOB:key=value;key=value">,
    Option<"clip", "clip", "double", /*default=*/"0.0",
           "Largest global gradient norm; 0 for no limit">,
    Option<"onNonfinite", "on-nonfinite", "std::string", /*default=*/"\"skip\"",
           "skip: a non-finite gradient leaves the step without effect; continue: "
           "it is applied; shrink: the rule's forms of that name answer to it">,
    Option<"keepGradients", "keep-gradients", "bool", /*default=*/"false",
           "Keep the gradients as results of the step">,
    Option<"keepOutputs", "keep-outputs", "bool", /*default=*/"false",
           "Keep the outputs of the imported graph as results of the step">,
  ];
}

#endif // BINADE_OPTIMIZER_PASSES_TD
