// RUN: split-file %s %t
// DEFINE: %{append} =
// DEFINE: %{errors} = not binade-opt %t/gradient.mlir --binade-append-optimizer='%{append}' 2>&1 | FileCheck %s --check-prefix

// REDEFINE: %{append} = optimizer=lyon
// RUN: %{errors} UNKNOWN
// UNKNOWN: error: unknown optimizer 'lyon'; did you mean 'lion'?
// UNKNOWN: note: there are adafactor, adafactor_vector, adagrad, adam, adam_mini, adam_onnx, adamw, adamw_amsgrad, adamw_fused, adamw_hf, ademamix, lamb, lars, lion, muon, rmsprop, rmsprop_centered, schedule_free_adamw, sgd, signum, tiger, tiger_sgd, or a rule file ending in .mlir

// REDEFINE: %{append} = optimizer=sgd settings=beta1=0.9
// RUN: %{errors} SETTING
// SETTING: error: optimizer 'sgd' has no setting 'beta1'
// SETTING: note: it has lr, momentum, dampening, weight_decay, nesterov

// REDEFINE: %{append} = optimizer=sgd settings=lr=fast
// RUN: %{errors} NUMBER
// NUMBER: error: expected a number for 'lr', got 'fast'

// REDEFINE: %{append} = optimizer=sgd settings=lr
// RUN: %{errors} VALUE
// VALUE: error: expected a number for 'lr', got ''

// REDEFINE: %{append} = settings=beta1=1
// RUN: %{errors} BOUND
// BOUND: error: beta1 must be below 1, got 1

// REDEFINE: %{append} = settings=lr=-0.1
// RUN: %{errors} NEGATIVE
// NEGATIVE: error: lr must be at least 0, got -0.1

// REDEFINE: %{append} = optimizer=sgd settings=nesterov=2
// RUN: %{errors} LARGE
// LARGE: error: nesterov must be at most 1, got 2

// REDEFINE: %{append} = settings=lr=nan
// RUN: %{errors} FINITE
// FINITE: error: lr must be finite, got nan

// REDEFINE: %{append} = group=*.bias:lr=0.1
// RUN: %{errors} GROUP
// GROUP: error: group '*.bias' matches no parameter; the first is 'w'

// REDEFINE: %{append} = group=w:decay=0.1
// RUN: %{errors} GROUPED
// GROUPED: error: optimizer 'adamw' has no setting 'decay'
// GROUPED: note: it has lr, beta1, beta2, eps, weight_decay

// REDEFINE: %{append} = settings=weight_dekay=0.1
// RUN: %{errors} NEAR
// NEAR: error: optimizer 'adamw' has no setting 'weight_dekay'; did you mean 'weight_decay'?

// REDEFINE: %{append} = group=[:lr=0.1
// RUN: %{errors} GLOB
// GLOB: error: '[' is not a glob: invalid glob pattern

// REDEFINE: %{append} = clip=-1
// RUN: %{errors} CLIP
// CLIP: error: clip must be at least 0, got -1

// REDEFINE: %{append} = on-nonfinite=stop
// RUN: %{errors} NONFINITE
// NONFINITE: error: on-nonfinite must be skip, continue or shrink, got 'stop'

// A user's rule file is parsed and checked like the shipped ones.

// REDEFINE: %{append} = optimizer=%t/absent.mlir
// RUN: %{errors} ABSENT
// ABSENT: absent.mlir{{.*}} error: cannot open: No such file or directory

// REDEFINE: %{append} = optimizer=%t/two.mlir
// RUN: %{errors} TWO
// TWO: error: expected one 'binade.optimizer' in a rule, got 2

// REDEFINE: %{append} = optimizer=%t/missing.mlir
// RUN: %{errors} MISSING
// MISSING: missing.mlir:1:1: error: needs a function '@missing.scalars'

// REDEFINE: %{append} = optimizer=%t/takes.mlir
// RUN: %{errors} TAKES
// TAKES: takes.mlir:3:1: error: takes 'f32', 'f32', expected 'f32', 'f32', 'f32'

// REDEFINE: %{append} = optimizer=%t/gives.mlir
// RUN: %{errors} GIVES
// GIVES: gives.mlir:3:1: error: returns 'f32', 'f32', expected 'f32'

// RUN: not binade-opt %t/two.mlir --binade-append-optimizer 2>&1 | FileCheck %s --check-prefix=GRADIENT
// GRADIENT: error: expected a function '@gradient' to complete

// RUN: not binade-opt %t/frozen.mlir --binade-append-optimizer 2>&1 | FileCheck %s --check-prefix=FROZEN
// FROZEN: error: has no parameter to train: all are frozen: 'w'

// RUN: not binade-opt %t/none.mlir --binade-append-optimizer 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: has no parameter to train{{$}}

// RUN: not binade-opt %t/double.mlir --binade-append-optimizer 2>&1 | FileCheck %s --check-prefix=DOUBLE
// DOUBLE: error: parameter 'w' is 'f64', and updates are computed in f32: export the model in f32

//--- double.mlir
func.func @gradient(%w: tensor<f64> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f64> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<f64> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  return %w, %w : tensor<f64>, tensor<f64>
}

//--- frozen.mlir
func.func @gradient(%w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<buffer>},
                    %mean: tensor<2xf32> {binade.name = "mean", binade.role = #binade.role<buffer>},
                    %loss: tensor<f32> {binade.name = "x", binade.role = #binade.role<batch>})
    -> (tensor<2xf32> {binade.name = "mean", binade.role = #binade.role<buffer>},
        tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  return %mean, %loss : tensor<2xf32>, tensor<f32>
}

//--- none.mlir
func.func @gradient(%loss: tensor<f32> {binade.name = "x", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  return %loss : tensor<f32>
}

//--- gradient.mlir
func.func @gradient(%w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<2xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %loss = binade.reduce_sum %w {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %loss, %w : tensor<f32>, tensor<2xf32>
}

//--- two.mlir
binade.optimizer @one {states = [], hypers = []}
binade.optimizer @two {states = [], hypers = []}

//--- missing.mlir
binade.optimizer @missing {states = [], hypers = []}

//--- takes.mlir
binade.optimizer @takes {states = [], hypers = [#binade.setting<"lr" = 0.1>]}
func.func private @takes.scalars(%step: i64, %lr: f64) -> f64 { return %lr : f64 }
func.func private @takes.update(%p: f32, %g: f32) -> f32 { return %p : f32 }

//--- gives.mlir
binade.optimizer @gives {states = [], hypers = []}
func.func private @gives.scalars(%step: i64) { return }
func.func private @gives.update(%p: f32, %g: f32) -> (f32, f32) { return %p, %g : f32, f32 }
