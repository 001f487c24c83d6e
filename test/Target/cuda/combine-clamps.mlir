// RUN: binade-opt %s --binade-combine-clamps | FileCheck %s

// CHECK-LABEL: func @bounds
// CHECK-SAME: %[[X:[a-z0-9]+]]: f32
func.func @bounds(%x: f32) -> f32 {
  %most = arith.constant 4.0 : f32
  %least = arith.constant -4.0 : f32
  // CHECK: %[[LOW:.*]] = arith.minimumf %[[X]], %{{.*}} : f32
  // CHECK: %[[Y:.*]] = arith.maximumf %[[LOW]], %{{.*}} : f32
  // CHECK: return %[[Y]]
  %above = arith.cmpf ogt, %x, %most : f32
  %low = arith.select %above, %most, %x : f32
  %below = arith.cmpf olt, %low, %least : f32
  %y = arith.select %below, %least, %low : f32
  return %y : f32
}

// Zeros differ in their sign, and an unordered comparison would drop NaN.
// CHECK-LABEL: func @others
// CHECK-COUNT-2: arith.select
// CHECK-NOT: arith.m{{.*}}imumf
func.func @others(%x: f32) -> (f32, f32) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %negative = arith.cmpf olt, %x, %zero : f32
  %relu = arith.select %negative, %zero, %x : f32
  %unordered = arith.cmpf ugt, %x, %one : f32
  %bounded = arith.select %unordered, %one, %x : f32
  return %relu, %bounded : f32, f32
}
