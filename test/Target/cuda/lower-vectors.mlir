// RUN: binade-opt %s --binade-lower-vectors | FileCheck %s

// No vectors of i1 remain: LLVM would put them in memory if their length is odd.

// CHECK-LABEL: func @any
// CHECK-NOT:     vector.reduction
// CHECK:         %[[TWO:.*]] = arith.ori
// CHECK:         %[[ALL:.*]] = arith.ori %{{.*}}, %[[TWO]] : i1
// CHECK-NEXT:    return %[[ALL]]
func.func @any(%x: vector<3xi1>) -> i1 {
  %y = vector.reduction <or>, %x : vector<3xi1> into i1
  return %y : i1
}

// CHECK-LABEL: func @largest
// CHECK-NEXT:    vector.reduction <maximumf>
func.func @largest(%x: vector<3xf32>) -> f32 {
  %y = vector.reduction <maximumf>, %x : vector<3xf32> into f32
  return %y : f32
}
