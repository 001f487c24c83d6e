// RUN: split-file %s %t
// DEFINE: %{append} =
// DEFINE: %{errors} = not binade-opt %t/gradient.mlir --binade-append-optimizer='%{append}' 2>&1 | FileCheck %s --check-prefix

// REDEFINE: %{append} = optimizer=tiger settings=form=column
// RUN: %{errors} FORM
// FORM: error: optimizer 'tiger' has no form 'column'; expected one of {{.*}}dimension

// `shrink` is a suffix of other forms and cannot be chosen itself.
// REDEFINE: %{append} = optimizer=tiger group=*:form=shrink
// RUN: %{errors} MODE
// MODE: error: optimizer 'tiger' has no form 'shrink'; expected one of
// MODE-NOT: shrink

// REDEFINE: %{append} = optimizer=tiger settings=form=scale.shrink
// RUN: %{errors} SCALE
// SCALE: error: optimizer 'tiger' has no form 'scale.shrink'

// REDEFINE: %{append} = optimizer=adamw settings=form=row
// RUN: %{errors} ONE
// ONE: error: optimizer 'adamw' has no forms to choose from, got 'row'

// REDEFINE: %{append} = optimizer=tiger:nlq
// RUN: %{errors} VARIANT
// VARIANT: error: optimizer 'tiger' has no variant 'nlq'; did you mean 'nlp'?{{$}}

// REDEFINE: %{append} = optimizer=adamw:nlp
// RUN: %{errors} NONE
// NONE: error: optimizer 'adamw' has no variant 'nlp'

// REDEFINE: %{append} = optimizer=adamw on-nonfinite=shrink
// RUN: %{errors} SHRINK
// SHRINK: error: optimizer 'adamw' has no 'shrink' form for gradients that are not finite; on-nonfinite must be skip or continue

// REDEFINE: %{append} = optimizer=%t/matrices.mlir
// RUN: %{errors} KIND
// KIND: error: optimizer 'matrices' does not update shift parameters such as 'b', and names no other for them

// REDEFINE: %{append} = optimizer=%t/circle.mlir
// RUN: %{errors} CIRCLE
// CIRCLE: circle.mlir:1:1: error: leaves other parameters to 'adafactor', which does not update all kinds

// REDEFINE: %{append} = optimizer=%t/unknown.mlir
// RUN: %{errors} UNKNOWN
// UNKNOWN: error: unknown optimizer 'adamq'; did you mean 'adam'?

// REDEFINE: %{append} = optimizer=%t/length.mlir
// RUN: %{errors} LENGTH
// LENGTH: length.mlir:6:1: error: '@length.prepare' has a value of type 'tensor<5xf32>'; each axis must have the length of an axis of the parameter

// REDEFINE: %{append} = optimizer=%t/square.mlir
// RUN: %{errors} SQUARE
// SQUARE: square.mlir:3:1: error: '@square.prepare' takes a parameter of type 'tensor<2x2xf32>', expected one axis, or two of different lengths

// REDEFINE: %{append} = optimizer=%t/few.mlir
// RUN: %{errors} FEW
// FEW: few.mlir:3:1: error: '@few.prepare' takes 1 values, expected 2: parameter, gradient, states and scalars

// REDEFINE: %{append} = optimizer=%t/loop.mlir
// RUN: %{errors} LOOP
// LOOP: loop.mlir:3:1: error: '@loop.prepare' calls itself

// REDEFINE: %{append} = optimizer=%t/rows.mlir
// RUN: %{errors} ROWS
// ROWS: rows.mlir:3:1: error: '@rows.prepare' must first return the states whose shapes differ from the parameter's

// REDEFINE: %{append} = optimizer=%t/forms.mlir
// RUN: %{errors} FORMS
// FORMS: forms.mlir:4:1: error: '@forms.prepare.vector' returns 0 values, '@forms.prepare' returns 1

// REDEFINE: %{append} = optimizer=%t/several.mlir
// RUN: %{errors} SEVERAL
// SEVERAL: several.mlir:3:1: error: '@several.prepare' has a constant with different elements; constants must be splats

// REDEFINE: %{append} = optimizer=%t/given.mlir
// RUN: %{errors} GIVEN
// GIVEN: given.mlir:4:1: error: takes 'f32', 'f32', expected 'f32', 'f32', 'f32'

// REDEFINE: %{append} = optimizer=%t/default.mlir
// RUN: %{errors} DEFAULT
// DEFAULT: default.mlir{{.*}} error: 'binade.optimizer' op expects numbers for hyper-parameters in variant 'big', got "rate" = 1.000000e+00

//--- gradient.mlir
func.func @gradient(%w: tensor<3x2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                    %b: tensor<2xf32> {binade.name = "b", binade.role = #binade.role<parameter>})
    -> (tensor<3x2xf32> {binade.name = "w", binade.role = #binade.role<gradient>},
        tensor<2xf32> {binade.name = "b", binade.role = #binade.role<gradient>}) {
  return %w, %b : tensor<3x2xf32>, tensor<2xf32>
}

//--- matrices.mlir
binade.optimizer @matrices {states = [], hypers = [], kinds = [#binade.parameter_kind<matrix>]}
func.func private @matrices.scalars(%step: i64) { return }
func.func private @matrices.update(%p: f32, %g: f32) -> f32 { return %g : f32 }

//--- circle.mlir
binade.optimizer @circle {states = [], hypers = [], others = "adafactor"}
func.func private @circle.scalars(%step: i64) { return }
func.func private @circle.update(%p: f32, %g: f32) -> f32 { return %g : f32 }

//--- unknown.mlir
binade.optimizer @unknown {states = [], hypers = [], others = "adamq"}
func.func private @unknown.scalars(%step: i64) { return }
func.func private @unknown.update(%p: f32, %g: f32) -> f32 { return %g : f32 }

//--- length.mlir
binade.optimizer @length {states = [], hypers = []}
func.func private @length.scalars(%step: i64) { return }
func.func private @length.update(%p: f32, %g: f32, %n: f32) -> f32 { return %n : f32 }


func.func private @length.prepare(%p: tensor<2xf32>, %g: tensor<2xf32>) -> tensor<f32> {
  %five = binade.constant dense<1.0> : tensor<5xf32>
  %n = binade.reduce_sum %five {axes = array<i64: 0>} : (tensor<5xf32>) -> tensor<f32>
  return %n : tensor<f32>
}

//--- square.mlir
binade.optimizer @square {states = [], hypers = []}
func.func private @square.scalars(%step: i64) { return }
func.func private @square.prepare(%p: tensor<2x2xf32>, %g: tensor<2x2xf32>) { return }
func.func private @square.update(%p: f32, %g: f32) -> f32 { return %g : f32 }

//--- few.mlir
binade.optimizer @few {states = [], hypers = []}
func.func private @few.scalars(%step: i64) { return }
func.func private @few.prepare(%p: tensor<2xf32>) { return }
func.func private @few.update(%p: f32, %g: f32) -> f32 { return %g : f32 }

//--- loop.mlir
binade.optimizer @loop {states = [], hypers = []}
func.func private @loop.scalars(%step: i64) { return }
func.func private @loop.prepare(%p: tensor<2xf32>, %g: tensor<2xf32>) -> tensor<2xf32> {
  %x = func.call @loop.prepare(%p, %g) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}
func.func private @loop.update(%p: f32, %g: f32, %x: f32) -> f32 { return %x : f32 }

//--- rows.mlir
binade.optimizer @rows {states = [#binade.setting<"row" = 0.0>], hypers = []}
func.func private @rows.scalars(%step: i64) { return }
func.func private @rows.prepare(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>, %r: tensor<2xf32>) -> tensor<2x3xf32> { return %g : tensor<2x3xf32> }
func.func private @rows.update(%p: f32, %g: f32, %x: f32) -> f32 { return %x : f32 }

//--- forms.mlir
binade.optimizer @forms {states = [], hypers = []}
func.func private @forms.scalars(%step: i64) { return }
func.func private @forms.prepare(%p: tensor<2xf32>, %g: tensor<2xf32>) -> tensor<2xf32> { return %g : tensor<2xf32> }
func.func private @forms.prepare.vector(%p: tensor<2xf32>, %g: tensor<2xf32>) { return }
func.func private @forms.update(%p: f32, %g: f32, %x: f32) -> f32 { return %x : f32 }

//--- several.mlir
binade.optimizer @several {states = [], hypers = []}
func.func private @several.scalars(%step: i64) { return }
func.func private @several.prepare(%p: tensor<2xf32>, %g: tensor<2xf32>) -> tensor<2xf32> {
  %x = binade.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %x : tensor<2xf32>
}
func.func private @several.update(%p: f32, %g: f32, %x: f32) -> f32 { return %x : f32 }

//--- given.mlir
binade.optimizer @given {states = [], hypers = []}
func.func private @given.scalars(%step: i64) { return }
func.func private @given.prepare(%p: tensor<2xf32>, %g: tensor<2xf32>) -> tensor<2xf32> { return %g : tensor<2xf32> }
func.func private @given.update(%p: f32, %g: f32) -> f32 { return %g : f32 }

//--- default.mlir
binade.optimizer @default {states = [], hypers = [], variants = {big = {rate = 1.0}}}
func.func private @default.scalars(%step: i64) { return }
func.func private @default.update(%p: f32, %g: f32) -> f32 { return %g : f32 }
