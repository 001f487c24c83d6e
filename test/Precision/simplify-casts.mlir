// RUN: binade-opt %s --binade-simplify-casts | FileCheck %s

// CHECK-LABEL: func.func @there_and_back
func.func @there_and_back(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  // CHECK-NEXT: return %arg0
  %0 = binade.cast %x : (tensor<8xbf16>) -> tensor<8xf32>
  %1 = binade.cast %0 : (tensor<8xf32>) -> tensor<8xbf16>
  return %1 : tensor<8xbf16>
}

// Widening first does not change what the second cast rounds.
// CHECK-LABEL: func.func @through_a_wider_format
func.func @through_a_wider_format(%x: tensor<8xbf16>) -> tensor<8xf8E4M3FN> {
  // CHECK-NEXT: %[[Y:.*]] = binade.cast %arg0 {saturate} : (tensor<8xbf16>) -> tensor<8xf8E4M3FN>
  // CHECK-NEXT: return %[[Y]]
  %0 = binade.cast %x : (tensor<8xbf16>) -> tensor<8xf32>
  %1 = binade.cast %0 {saturate} : (tensor<8xf32>) -> tensor<8xf8E4M3FN>
  return %1 : tensor<8xf8E4M3FN>
}

// The first cast rounds: it must stay.
// CHECK-LABEL: func.func @rounded
func.func @rounded(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = binade.cast %arg0 : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK-NEXT: binade.cast %[[Y]] : (tensor<8xbf16>) -> tensor<8xf32>
  %0 = binade.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = binade.cast %0 : (tensor<8xbf16>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// bf16 has exponents that f16 lacks, f16 digits that bf16 lacks.
// CHECK-LABEL: func.func @neither_holds_the_other
func.func @neither_holds_the_other(%x: tensor<8xf16>, %y: tensor<8xbf16>) -> (tensor<8xf16>, tensor<8xbf16>) {
  // CHECK-COUNT-4: binade.cast
  %0 = binade.cast %x : (tensor<8xf16>) -> tensor<8xbf16>
  %1 = binade.cast %0 : (tensor<8xbf16>) -> tensor<8xf16>
  %2 = binade.cast %y : (tensor<8xbf16>) -> tensor<8xf16>
  %3 = binade.cast %2 : (tensor<8xf16>) -> tensor<8xbf16>
  return %1, %3 : tensor<8xf16>, tensor<8xbf16>
}

// f8E5M2 has infinities; f8E4M3FN could not give one back.
// CHECK-LABEL: func.func @infinities
func.func @infinities(%x: tensor<8xf8E5M2>, %y: tensor<8xf8E4M3FN>) -> (tensor<8xf8E5M2>, tensor<8xf8E4M3FN>) {
  // CHECK-NEXT: %[[A:.*]] = binade.cast %arg0 : (tensor<8xf8E5M2>) -> tensor<8xf8E4M3FN>
  // CHECK-NEXT: %[[B:.*]] = binade.cast %[[A]]
  // CHECK-NEXT: return %[[B]], %arg1
  %0 = binade.cast %x : (tensor<8xf8E5M2>) -> tensor<8xf8E4M3FN>
  %1 = binade.cast %0 : (tensor<8xf8E4M3FN>) -> tensor<8xf8E5M2>
  %2 = binade.cast %y : (tensor<8xf8E4M3FN>) -> tensor<8xf16>
  %3 = binade.cast %2 : (tensor<8xf16>) -> tensor<8xf8E4M3FN>
  return %1, %3 : tensor<8xf8E5M2>, tensor<8xf8E4M3FN>
}

// Casts to integers and back are not merged.
// CHECK-LABEL: func.func @integers
func.func @integers(%x: tensor<8xi64>) -> tensor<8xi64> {
  // CHECK-COUNT-2: binade.cast
  %0 = binade.cast %x : (tensor<8xi64>) -> tensor<8xf32>
  %1 = binade.cast %0 : (tensor<8xf32>) -> tensor<8xi64>
  return %1 : tensor<8xi64>
}

// A cast that saturates makes infinity finite, there and on the way.
// CHECK-LABEL: func.func @saturated
func.func @saturated(%x: tensor<8xbf16>, %y: tensor<8xf16>, %z: tensor<8xf8E4M3FN>) -> (tensor<8xbf16>, tensor<8xf64>, tensor<8xf8E4M3FN>) {
  // CHECK-NEXT: %[[A:.*]] = binade.cast %arg0 {saturate} : (tensor<8xbf16>) -> tensor<8xbf16>
  // CHECK-NEXT: %[[B:.*]] = binade.cast %arg1 {saturate} : (tensor<8xf16>) -> tensor<8xf32>
  // CHECK-NEXT: %[[C:.*]] = binade.cast %[[B]] : (tensor<8xf32>) -> tensor<8xf64>
  // CHECK-NEXT: return %[[A]], %[[C]], %arg2
  %0 = binade.cast %x : (tensor<8xbf16>) -> tensor<8xf32>
  %1 = binade.cast %0 {saturate} : (tensor<8xf32>) -> tensor<8xbf16>
  %2 = binade.cast %y {saturate} : (tensor<8xf16>) -> tensor<8xf32>
  %3 = binade.cast %2 : (tensor<8xf32>) -> tensor<8xf64>
  // f8E4M3FN has no infinity that could become finite.
  %4 = binade.cast %z {saturate} : (tensor<8xf8E4M3FN>) -> tensor<8xf32>
  %5 = binade.cast %4 {saturate} : (tensor<8xf32>) -> tensor<8xf8E4M3FN>
  return %1, %3, %5 : tensor<8xbf16>, tensor<8xf64>, tensor<8xf8E4M3FN>
}

// A merged cast has the phase of the cast that remains.
// CHECK-LABEL: func.func @phase
func.func @phase(%x: tensor<8xbf16>) -> tensor<8xf16> {
  // CHECK-NEXT: binade.cast %arg0 {binade.phase = #binade.phase<backward>}
  %0 = binade.cast %x : (tensor<8xbf16>) -> tensor<8xf32>
  %1 = binade.cast %0 {binade.phase = #binade.phase<backward>} : (tensor<8xf32>) -> tensor<8xf16>
  return %1 : tensor<8xf16>
}

// Each bf16 value is a TF32 value: rounding it to TF32 changes nothing.
// CHECK-LABEL: func.func @rounded_already
func.func @rounded_already(%x: tensor<8xbf16>) -> tensor<8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = binade.cast %arg0
  // CHECK-NEXT: return %[[Y]]
  %0 = binade.cast %x : (tensor<8xbf16>) -> tensor<8xf32>
  %1 = binade.round_to %0 {format = tf32} : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// f64 has values between those of TF32.
// CHECK-LABEL: func.func @rounded_here
func.func @rounded_here(%x: tensor<8xf64>) -> tensor<8xf32> {
  // CHECK: binade.round_to
  %0 = binade.cast %x : (tensor<8xf64>) -> tensor<8xf32>
  %1 = binade.round_to %0 {format = tf32} : tensor<8xf32>
  return %1 : tensor<8xf32>
}
