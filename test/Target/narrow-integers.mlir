// RUN: binade-opt %s --canonicalize --binade-bitcast-narrow-floats | FileCheck %s

// An integer is rounded to f32 and then to bf16, and other passes do not merge the casts.

// CHECK-LABEL: func @truth
// CHECK:         %[[F:.*]] = arith.uitofp %arg0 : vector<8xi1> to vector<8xf32>
// CHECK-NEXT:    %[[H:.*]] = arith.truncf %[[F]] : vector<8xf32> to vector<8xbf16>
// CHECK-NEXT:    arith.bitcast %[[H]] : vector<8xbf16> to vector<8xi16>
func.func @truth(%x: vector<8xi1>) -> vector<8xbf16> {
  %f = arith.uitofp %x : vector<8xi1> to vector<8xf32>
  %h = arith.truncf %f : vector<8xf32> to vector<8xbf16>
  return %h : vector<8xbf16>
}

// CHECK-LABEL: func @number
// CHECK:         %[[F:.*]] = arith.sitofp %arg0 : i64 to f32
// CHECK-NEXT:    arith.truncf %[[F]] : f32 to f16
func.func @number(%x: i64) -> f16 {
  %f = arith.sitofp %x : i64 to f32
  %h = arith.truncf %f : f32 to f16
  return %h : f16
}
