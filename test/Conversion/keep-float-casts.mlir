// RUN: binade-opt %s --binade-expand-float-casts=keep-formats=bf16,f8E4M3FN --cse --split-input-file | FileCheck %s
// RUN: binade-opt %s --binade-expand-float-casts --canonicalize --split-input-file | FileCheck %s --check-prefix=ALL
// RUN: not binade-opt %s --binade-expand-float-casts=keep-formats=i8 2>&1 | FileCheck %s --check-prefix=NONE

// NONE: error: expected option `keep-formats` to name float formats, got 'i8'

// Casts that the target has instructions for stay: rounding to its formats, and widening
// its 8-bit formats and bf16.

// CHECK-LABEL: func.func @kept
// CHECK:         arith.truncf %{{.*}} : vector<4xf32> to vector<4xbf16>
// CHECK:         arith.truncf %{{.*}} : vector<4xf32> to vector<4xf8E4M3FN>
// CHECK-NOT:     arith.truncf
// CHECK:         arith.extf %{{.*}} : vector<4xf8E4M3FN> to vector<4xf32>
// CHECK:         arith.extf %{{.*}} : vector<4xbf16> to vector<4xf32>
// ALL-LABEL:   func.func @kept
// ALL-NOT:       arith.truncf
// ALL-NOT:       arith.extf {{.*}}f8
func.func @kept(%x: vector<4xf32>, %c: vector<4xf8E4M3FN>, %n: vector<4xbf16>)
    -> (vector<4xbf16>, vector<4xf8E4M3FN>, vector<4xf8E5M2>, vector<4xf32>, vector<4xf32>) {
  %0 = arith.truncf %x : vector<4xf32> to vector<4xbf16>
  %1 = arith.truncf %x : vector<4xf32> to vector<4xf8E4M3FN>
  %2 = arith.truncf %x : vector<4xf32> to vector<4xf8E5M2>
  %3 = arith.extf %c : vector<4xf8E4M3FN> to vector<4xf32>
  %4 = arith.extf %n : vector<4xbf16> to vector<4xf32>
  return %0, %1, %2, %3, %4 : vector<4xbf16>, vector<4xf8E4M3FN>, vector<4xf8E5M2>, vector<4xf32>, vector<4xf32>
}

// -----

// A cast from f64 goes through f32 with rounding to odd, so that it rounds once.

// ALL-LABEL:   func.func @from_f64
// CHECK-LABEL: func.func @from_f64
// CHECK:         arith.truncf %{{.*}} : f64 to f32
// CHECK:         arith.truncf %{{.*}} : f32 to f8E4M3FN
func.func @from_f64(%x: f64) -> f8E4M3FN {
  %0 = arith.truncf %x : f64 to f8E4M3FN
  return %0 : f8E4M3FN
}

// -----

// Saturation clamps the result's bits, not the operand; clamps to other bounds are arithmetic.

// ALL-LABEL: func.func @saturates
// ALL-NOT:     arith.cmpf o{{[gl]}}t
// ALL:         arith.minui
// ALL:         return
func.func @saturates(%x: f32) -> f8E4M3FN {
  %most = arith.constant 448.0 : f32
  %least = arith.constant -448.0 : f32
  %above = arith.cmpf ogt, %x, %most : f32
  %low = arith.select %above, %most, %x : f32
  %below = arith.cmpf olt, %low, %least : f32
  %kept = arith.select %below, %least, %low : f32
  %0 = arith.truncf %kept : f32 to f8E4M3FN
  return %0 : f8E4M3FN
}

// -----

// ALL-LABEL: func.func @clamps
// ALL-COUNT-2: arith.cmpf o{{[gl]}}t
// ALL:         return
func.func @clamps(%x: f32) -> f8E4M3FN {
  %most = arith.constant 400.0 : f32
  %least = arith.constant -400.0 : f32
  %above = arith.cmpf ogt, %x, %most : f32
  %low = arith.select %above, %most, %x : f32
  %below = arith.cmpf olt, %low, %least : f32
  %kept = arith.select %below, %least, %low : f32
  %0 = arith.truncf %kept : f32 to f8E4M3FN
  return %0 : f8E4M3FN
}
