// RUN: binade-opt %s --binade-expand-float-casts --cse --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @f32_to_bf16
// CHECK-SAME:    (%[[X:.*]]: vector<16xf32>)
func.func @f32_to_bf16(%x: vector<16xf32>) -> vector<16xbf16> {
  // CHECK:     %[[BITS:.*]] = arith.bitcast %[[X]] : vector<16xf32> to vector<16xi32>
  // CHECK:     arith.constant dense<32767>
  // CHECK:     arith.cmpf uno, %[[X]], %[[X]]
  // CHECK:     arith.trunci {{.*}} : vector<16xi32> to vector<16xi16>
  // CHECK:     arith.bitcast {{.*}} : vector<16xi16> to vector<16xbf16>
  // CHECK-NOT: arith.truncf
  %y = arith.truncf %x : vector<16xf32> to vector<16xbf16>
  return %y : vector<16xbf16>
}

// -----

// CHECK-LABEL: func.func @bf16_to_f32
// CHECK-SAME:    (%[[X:.*]]: bf16)
func.func @bf16_to_f32(%x: bf16) -> f32 {
  // CHECK: %[[HALF:.*]] = arith.bitcast %[[X]] : bf16 to i16
  // CHECK: %[[WORD:.*]] = arith.extui %[[HALF]] : i16 to i32
  // CHECK: %[[HIGH:.*]] = arith.shli %[[WORD]]
  // CHECK: arith.bitcast %[[HIGH]] : i32 to f32
  %y = arith.extf %x : bf16 to f32
  return %y : f32
}

// -----

// CHECK-LABEL: func.func @bf16_to_f64
func.func @bf16_to_f64(%x: vector<8xbf16>) -> vector<8xf64> {
  // CHECK: arith.shli
  // CHECK: arith.extf {{.*}} : vector<8xf32> to vector<8xf64>
  %y = arith.extf %x : vector<8xbf16> to vector<8xf64>
  return %y : vector<8xf64>
}

// -----

// f16 takes the hardware's conversion from an f32 rounded to odd.
// CHECK-LABEL: func.func @f64_is_rounded_once
func.func @f64_is_rounded_once(%x: f64) -> (bf16, f16) {
  // CHECK: %[[NEAREST:.*]] = arith.truncf %{{.*}} : f64 to f32
  // CHECK: %[[BACK:.*]] = arith.extf %[[NEAREST]] : f32 to f64
  // CHECK: arith.cmpf une, %[[BACK]]
  // CHECK: %[[BF16:.*]] = arith.bitcast {{.*}} : i16 to bf16
  // CHECK: %[[F16:.*]] = arith.truncf %{{.*}} : f32 to f16
  // CHECK: return %[[BF16]], %[[F16]]
  %y = arith.truncf %x : f64 to bf16
  %z = arith.truncf %x : f64 to f16
  return %y, %z : bf16, f16
}

// -----

// CHECK-LABEL: func.func @others_are_left_alone
func.func @others_are_left_alone(%x: f32, %y: f16, %z: tensor<4xf32>)
    -> (f16, f32, bf16, tensor<4xbf16>) {
  // CHECK: arith.truncf %{{.*}} : f32 to f16
  // CHECK: arith.extf %{{.*}} : f16 to f32
  // CHECK: arith.truncf %{{.*}} downward : f32 to bf16
  // CHECK: arith.truncf %{{.*}} : tensor<4xf32> to tensor<4xbf16>
  %0 = arith.truncf %x : f32 to f16
  %1 = arith.extf %y : f16 to f32
  %2 = arith.truncf %x downward : f32 to bf16
  %3 = arith.truncf %z : tensor<4xf32> to tensor<4xbf16>
  return %0, %1, %2, %3 : f16, f32, bf16, tensor<4xbf16>
}
