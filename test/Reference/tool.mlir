// Accepted arguments of the command line, and its exit codes.

// RUN: binade-interpret %s | FileCheck %s --check-prefix=PRINT
// PRINT: x: tensor<3xf32> = 1 -2.5 nan
// PRINT-NEXT: y: tensor<3xi1> = 1 0 0

// RUN: binade-interpret %s --out %t.safetensors --bounds %t.bounds.safetensors
// RUN: binade-interpret %s --results %t.safetensors --check | FileCheck %s --check-prefix=CHECK
// CHECK: x: 0 of the bound
// CHECK-NEXT: y: 0 of the bound

// A result that differs is exit code 1: the bounds of x are zeros.
// RUN: not binade-interpret %S/Inputs/other.mlir --results %t.safetensors --check | FileCheck %s --check-prefix=DIFFERENT
// DIFFERENT: x: inf of the bound at element 1: -2.5, reference 4, bound 0

// Errors as text and as records.
// RUN: not binade-interpret absent.mlir 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: absent.mlir: error: cannot open
// RUN: not binade-interpret absent.mlir --diag json 2>&1 | FileCheck %s --check-prefix=JSON
// JSON: {"severity":"error","file":"absent.mlir",{{.*}}"exit_code":3}

// RUN: %python -c "print('module {' * 20000)" > %t.deep.mlir
// RUN: not binade-interpret %t.deep.mlir 2>&1 | FileCheck %s --check-prefix=DEEP
// DEEP: deep.mlir:1:{{[0-9]+}}: error: nesting deeper than 256 levels

// RUN: not binade-interpret %s --inputs %t.safetensors 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: tool.mlir:[[#@LINE+1]]:1: error: function '@f' has no argument 'x'; its arguments are: a
func.func @f(%a: tensor<3xf32> {binade.name = "a", binade.init = dense<[1.0, -2.5, 0x7FC00000]> : tensor<3xf32>})
    -> (tensor<3xf32> {binade.name = "x"}, tensor<3xi1> {binade.name = "y"}) {
  %zero = binade.constant dense<0.0> : tensor<3xf32>
  %y = binade.compare %a, %zero {comparison = #binade.comparison<greater>}
    : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  return %a, %y : tensor<3xf32>, tensor<3xi1>
}
