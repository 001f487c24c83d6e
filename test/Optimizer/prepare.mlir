// RUN: split-file %s %t
// DEFINE: %{append} =
// DEFINE: %{step} = binade-opt %t/gradient.mlir --binade-append-optimizer='%{append}' --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix

// The form of `prepare` depends on the role of the parameter in the model, which follows
// from its users, through data movement, and from its shape.

// REDEFINE: %{append} = optimizer=tiger
// RUN: %{step} TIGER
// TIGER: optimizer_update @tiger %{{.*}} {{.*}}prepare = @tiger.prepare.embedding} {{.*}} loc("table")
// TIGER: optimizer_update @tiger %{{.*}} {{.*}}prepare = @tiger.prepare} {{.*}} loc("wide")
// TIGER: optimizer_update @tiger %{{.*}} {{.*}}prepare = @tiger.prepare} {{.*}} loc("tall")
// TIGER: optimizer_update @tiger %{{.*}} {{.*}}prepare = @tiger.prepare.scale} {{.*}} loc("norm.scale")
// TIGER: optimizer_update @tiger %{{.*}} {{.*}}prepare = @tiger.prepare.shift} {{.*}} loc("norm.shift")
// TIGER: optimizer_update @tiger %{{.*}} {{.*}}prepare = @tiger.prepare.scale} {{.*}} loc("gain")

// A form in the settings replaces the unnamed one, for all parameters or by name.

// REDEFINE: %{append} = optimizer=tiger settings=form=dimension group=wide:form=embedding
// RUN: %{step} FORM
// FORM-DAG: prepare = @tiger.prepare.embedding} {{.*}} loc("table")
// FORM-DAG: prepare = @tiger.prepare.embedding} {{.*}} loc("wide")
// FORM-DAG: prepare = @tiger.prepare.dimension} {{.*}} loc("tall")
// FORM-DAG: prepare = @tiger.prepare.scale} {{.*}} loc("gain")

// Without a skip, the rule itself handles gradients that are not finite.

// REDEFINE: %{append} = optimizer=tiger on-nonfinite=shrink
// RUN: %{step} SHRINK --implicit-check-not=skip(
// SHRINK: prepare = @tiger.prepare.embedding.shrink} {{.*}} loc("table")
// SHRINK: prepare = @tiger.prepare.shrink} {{.*}} loc("wide")
// SHRINK: prepare = @tiger.prepare.scale.shrink} {{.*}} loc("gain")

// Tall matrices, and what a rule leaves to another one. That shares settings by name,
// and has those of its own under its name.

// REDEFINE: %{append} = optimizer=muon settings=lr=0.5,adamw.beta2=0.75,match_rms=1
// RUN: %{step} MUON
// MUON-DAG: func.func @step({{.*}}dense<5.000000e-01> : tensor<f64>, binade.name = "lr"
// MUON-DAG: dense<5.000000e-01> : tensor<f64>, binade.name = "lr@1"
// MUON-DAG: dense<7.500000e-01> : tensor<f64>, binade.name = "beta2@1"
// MUON-DAG: dense<1.000000e-01> : tensor<f64>, binade.name = "weight_decay@1"
// MUON-DAG: optimizer_update @muon {{.*}}prepare = @muon.prepare} {{.*}} loc("wide")
// MUON-DAG: optimizer_update @muon {{.*}}prepare = @muon.prepare.tall} {{.*}} loc("tall")
// MUON-DAG: optimizer_update @adamw {{.*}} loc("table")
// MUON-DAG: optimizer_update @adamw {{.*}} loc("gain")

// States have the shapes that the rule specifies.

// REDEFINE: %{append} = optimizer=adafactor
// RUN: %{step} FACTOR
// FACTOR-DAG: tensor<4xf32> {{{[^}]*}}binade.name = "row_var/wide"
// FACTOR-DAG: tensor<6xf32> {{{[^}]*}}binade.name = "col_var/wide"
// FACTOR-DAG: tensor<8xf32> {{{[^}]*}}binade.name = "row_var/table"
// FACTOR-DAG: tensor<1x4xf32> {{{[^}]*}}binade.name = "variance/gain"

// REDEFINE: %{append} = optimizer=tiger:cv settings=lr=0.5
// RUN: %{step} VARIANT
// VARIANT: dense<9.450000e-01> : tensor<f64>, binade.name = "beta"

//--- gradient.mlir
func.func @gradient(
    %ids: tensor<2xi64> {binade.name = "ids", binade.role = #binade.role<batch>},
    %table: tensor<8x4xf32> {binade.name = "table", binade.role = #binade.role<parameter>} loc("table"),
    %wide: tensor<4x6xf32> {binade.name = "wide", binade.role = #binade.role<parameter>} loc("wide"),
    %tall: tensor<6x4xf32> {binade.name = "tall", binade.role = #binade.role<parameter>} loc("tall"),
    %scale: tensor<4xf32> {binade.name = "norm.scale", binade.role = #binade.role<parameter>} loc("norm.scale"),
    %shift: tensor<4xf32> {binade.name = "norm.shift", binade.role = #binade.role<parameter>} loc("norm.shift"),
    %gain: tensor<1x4xf32> {binade.name = "gain", binade.role = #binade.role<parameter>} loc("gain"))
    -> (tensor<8x4xf32> {binade.name = "table", binade.role = #binade.role<gradient>},
        tensor<4x6xf32> {binade.name = "wide", binade.role = #binade.role<gradient>},
        tensor<6x4xf32> {binade.name = "tall", binade.role = #binade.role<gradient>},
        tensor<4xf32> {binade.name = "norm.scale", binade.role = #binade.role<gradient>},
        tensor<4xf32> {binade.name = "norm.shift", binade.role = #binade.role<gradient>},
        tensor<1x4xf32> {binade.name = "gain", binade.role = #binade.role<gradient>}) {
  %x = binade.gather %table, %ids : (tensor<8x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %y, %mean, %rstd = binade.layer_norm %x, %scale, %shift {epsilon = 1.0e-5 : f64}
    : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  %flat = binade.reshape %gain : (tensor<1x4xf32>) -> tensor<4xf32>
  %rows = binade.broadcast %flat {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %z = binade.mul %y, %rows : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %a = binade.matmul %z, %wide : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %b = binade.matmul %a, %tall : (tensor<2x6xf32>, tensor<6x4xf32>) -> tensor<2x4xf32>
  return %table, %wide, %tall, %scale, %shift, %gain
    : tensor<8x4xf32>, tensor<4x6xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1x4xf32>
}
