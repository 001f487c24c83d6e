// RUN: binade-opt %s --binade-expand-math --cse --split-input-file | FileCheck %s

// An exponential expands to a clamp that keeps NaN, range reduction, polynomial, two scalings.
// CHECK-LABEL: func.func @exp_of_scalar
// CHECK-SAME:    (%[[X:.*]]: f32)
func.func @exp_of_scalar(%x: f32) -> f32 {
  // CHECK:       arith.cmpf ogt, %[[X]]
  // CHECK:       %[[UPPER:.*]] = arith.select
  // CHECK:       arith.cmpf olt, %[[UPPER]]
  // CHECK-COUNT-9: math.fma
  // CHECK:       arith.mulf
  // CHECK:       %[[Y:.*]] = arith.mulf
  // CHECK-NOT:   math.exp
  // CHECK:       return %[[Y]] : f32
  %y = math.exp %x : f32
  return %y : f32
}

// -----

// CHECK-LABEL: func.func @any_shape_of_vector
func.func @any_shape_of_vector(%x: vector<2x[4]xf32>) -> vector<2x[4]xf32> {
  // CHECK-NOT: math.tanh
  // CHECK:     arith.divf {{.*}} : vector<2x[4]xf32>
  // CHECK:     math.copysign {{.*}} : vector<2x[4]xf32>
  %y = math.tanh %x : vector<2x[4]xf32>
  return %y : vector<2x[4]xf32>
}

// -----

// CHECK-LABEL: func.func @nothing_is_left
func.func @nothing_is_left(%x: vector<16xf32>) -> vector<16xf32> {
  // CHECK-NOT: math.{{exp|log|tanh|erf|sin|cos|rsqrt|powf}}
  // CHECK-NOT: fastmath
  // CHECK:     return
  %0 = math.exp %x : vector<16xf32>
  %1 = math.exp2 %0 : vector<16xf32>
  %2 = math.expm1 %1 : vector<16xf32>
  %3 = math.log %2 : vector<16xf32>
  %4 = math.log2 %3 : vector<16xf32>
  %5 = math.log1p %4 : vector<16xf32>
  %6 = math.tanh %5 : vector<16xf32>
  %7 = math.erf %6 : vector<16xf32>
  %8 = math.sin %7 : vector<16xf32>
  %9 = math.cos %8 : vector<16xf32>
  %10 = math.rsqrt %9 : vector<16xf32>
  %11 = math.powf %10, %x : vector<16xf32>
  return %11 : vector<16xf32>
}

// -----

// CHECK-LABEL: func.func @powers_by_multiplication
// CHECK-SAME:    (%[[X:.*]]: vector<8xf32>)
func.func @powers_by_multiplication(%x: vector<8xf32>)
    -> (vector<8xf32>, vector<8xf32>, vector<8xf32>) {
  %one = arith.constant dense<1.0> : vector<8xf32>
  %two = arith.constant dense<2.0> : vector<8xf32>
  %three = arith.constant dense<3.0> : vector<8xf32>
  // CHECK:       %[[SQUARE:.*]] = arith.mulf %[[X]], %[[X]]
  // CHECK-NEXT:  %[[CUBE:.*]] = arith.mulf %[[SQUARE]], %[[X]]
  // CHECK-NEXT:  return %[[X]], %[[SQUARE]], %[[CUBE]]
  %a = math.powf %x, %one : vector<8xf32>
  %b = math.powf %x, %two : vector<8xf32>
  %c = math.powf %x, %three : vector<8xf32>
  return %a, %b, %c : vector<8xf32>, vector<8xf32>, vector<8xf32>
}

// -----

// CHECK-LABEL: func.func @powers_by_root
func.func @powers_by_root(%x: f32) -> (f32, f32, f32) {
  %half = arith.constant 0.5 : f32
  %minus_half = arith.constant -0.5 : f32
  %minus_one = arith.constant -1.0 : f32
  // CHECK:     %[[ROOT:.*]] = math.sqrt
  // CHECK:     %[[SELECTED:.*]] = arith.select {{.*}}, %[[ROOT]]
  // CHECK:     arith.divf %{{.*}}, %[[SELECTED]]
  // CHECK:     arith.divf
  // CHECK-NOT: math.fma
  %a = math.powf %x, %half : f32
  %b = math.powf %x, %minus_half : f32
  %c = math.powf %x, %minus_one : f32
  return %a, %b, %c : f32, f32, f32
}

// -----

// What an optimizer computes in f64 has the same bits on all targets.
// CHECK-LABEL: func.func @f64
// CHECK-NOT:     math.{{exp|log|pow}}
// CHECK:         return
func.func @f64(%x: f64, %y: f64) -> (f64, f64, f64) {
  %0 = math.exp %x : f64
  %1 = math.log %x : f64
  %2 = math.powf %x, %y : f64
  return %0, %1, %2 : f64, f64, f64
}

// -----

// Other functions of f64 are left to the target; tensors are lowered before.
// CHECK-LABEL: func.func @others_are_left_alone
func.func @others_are_left_alone(%x: f64, %y: tensor<4xf32>)
    -> (f64, tensor<4xf32>) {
  // CHECK: math.tanh %{{.*}} : f64
  // CHECK: math.exp %{{.*}} : tensor<4xf32>
  %0 = math.tanh %x : f64
  %1 = math.exp %y : tensor<4xf32>
  return %0, %1 : f64, tensor<4xf32>
}

// -----

// Functions whose result is rounded to 16 bits have shorter polynomials.
// CHECK-LABEL: func.func @accuracy_of_the_result
// CHECK-SAME:    (%[[X:.*]]: vector<16xf32>)
func.func @accuracy_of_the_result(%x: vector<16xf32>) -> (vector<16xf32>, vector<16xf32>) {
  // CHECK-COUNT-5: math.fma
  // CHECK-NOT:     math.fma
  // CHECK:         math.absf
  %0 = math.exp %x {binade.accuracy = bf16} : vector<16xf32>
  // The result of 2^x is scaled once, because it does not exceed 1.
  // CHECK-COUNT-11: math.fma
  // CHECK:          arith.mulf
  // CHECK-NOT:      math.{{fma|erfc}}
  // CHECK:          return
  %1 = math.absf %x : vector<16xf32>
  %2 = math.erfc %1 {binade.accuracy = bf16} : vector<16xf32>
  return %0, %2 : vector<16xf32>, vector<16xf32>
}
