// RUN: binade-opt %s --binade-recognize-composites | FileCheck %s

// The logarithms of softmax at the labels, as PyTorch's exporter writes it.

// CHECK-LABEL: func.func @cross_entropy(
// CHECK:         %[[LOSSES:[a-z0-9_]+]], {{.*}} = binade.cross_entropy %arg0, %arg1 {ignore_index = -100 : i64}
// CHECK-NOT:     binade.log_softmax
// CHECK:         return %[[LOSSES]]
func.func @cross_entropy(%x: tensor<3x4xf32>, %labels: tensor<3xi64>) -> tensor<3xf32> {
  %ignored = binade.constant dense<-100> : tensor<3xi64>
  %none = binade.constant dense<0> : tensor<3xi64>
  %zero = binade.constant dense<0> : tensor<3x1xi64>
  %one = binade.constant dense<1> : tensor<3x1xi64>
  %classes = binade.constant dense<4> : tensor<3x1xi64>
  %nothing = binade.constant dense<0.000000e+00> : tensor<3xf32>
  %is = binade.compare %labels, %ignored {comparison = #binade.comparison<equal>} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
  %valid = binade.not %is : (tensor<3xi1>) -> tensor<3xi1>
  %safe = binade.select %valid, %labels, %none : (tensor<3xi1>, tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  %column = binade.reshape %safe : (tensor<3xi64>) -> tensor<3x1xi64>
  %checked = binade.check_index %column {high = 4 : i64, low = -4 : i64} : (tensor<3x1xi64>) -> tensor<3x1xi64>
  %below = binade.compare %checked, %zero {comparison = #binade.comparison<less>} : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi1>
  %shifted = binade.add %checked, %classes : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %wrapped = binade.select %below, %shifted, %checked : (tensor<3x1xi1>, tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %offset = binade.mul %wrapped, %one : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %count = binade.iota {axis = 0 : i64} : tensor<3x1xi64>
  %row = binade.mul %count, %classes : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %place = binade.add %offset, %row : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %logs = binade.log_softmax %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %flat = binade.reshape %logs : (tensor<3x4xf32>) -> tensor<12xf32>
  %picked = binade.gather %flat, %place : (tensor<12xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  %logarithm = binade.reshape %picked : (tensor<3x1xf32>) -> tensor<3xf32>
  %negative = binade.neg %logarithm : (tensor<3xf32>) -> tensor<3xf32>
  %losses = binade.select %valid, %negative, %nothing : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %losses : tensor<3xf32>
}

// The ignored labels differ from those that are replaced by 0 for the lookup.

// CHECK-LABEL: func.func @other_condition(
// CHECK-NOT:     binade.cross_entropy
// CHECK:         binade.log_softmax
func.func @other_condition(%x: tensor<3x4xf32>, %labels: tensor<3xi64>) -> tensor<3xf32> {
  %ignored = binade.constant dense<-100> : tensor<3xi64>
  %none = binade.constant dense<0> : tensor<3xi64>
  %zero = binade.constant dense<0> : tensor<3x1xi64>
  %one = binade.constant dense<1> : tensor<3x1xi64>
  %classes = binade.constant dense<4> : tensor<3x1xi64>
  %nothing = binade.constant dense<0.000000e+00> : tensor<3xf32>
  %is = binade.compare %labels, %ignored {comparison = #binade.comparison<equal>} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
  %valid = binade.not %is : (tensor<3xi1>) -> tensor<3xi1>
  %safe = binade.select %valid, %labels, %none : (tensor<3xi1>, tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  %column = binade.reshape %safe : (tensor<3xi64>) -> tensor<3x1xi64>
  %checked = binade.check_index %column {high = 4 : i64, low = -4 : i64} : (tensor<3x1xi64>) -> tensor<3x1xi64>
  %below = binade.compare %checked, %zero {comparison = #binade.comparison<less>} : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi1>
  %shifted = binade.add %checked, %classes : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %wrapped = binade.select %below, %shifted, %checked : (tensor<3x1xi1>, tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %offset = binade.mul %wrapped, %one : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %count = binade.iota {axis = 0 : i64} : tensor<3x1xi64>
  %row = binade.mul %count, %classes : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %place = binade.add %offset, %row : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %logs = binade.log_softmax %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %flat = binade.reshape %logs : (tensor<3x4xf32>) -> tensor<12xf32>
  %picked = binade.gather %flat, %place : (tensor<12xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  %logarithm = binade.reshape %picked : (tensor<3x1xf32>) -> tensor<3xf32>
  %negative = binade.neg %logarithm : (tensor<3xf32>) -> tensor<3xf32>
  %losses = binade.select %is, %negative, %nothing : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %losses : tensor<3xf32>
}

// The logarithms have another user.

// CHECK-LABEL: func.func @read_elsewhere(
// CHECK-NOT:     binade.cross_entropy
// CHECK:         binade.log_softmax
func.func @read_elsewhere(%x: tensor<3x4xf32>, %labels: tensor<3xi64>) -> tensor<3xf32> {
  %ignored = binade.constant dense<-100> : tensor<3xi64>
  %none = binade.constant dense<0> : tensor<3xi64>
  %zero = binade.constant dense<0> : tensor<3x1xi64>
  %one = binade.constant dense<1> : tensor<3x1xi64>
  %classes = binade.constant dense<4> : tensor<3x1xi64>
  %nothing = binade.constant dense<0.000000e+00> : tensor<3xf32>
  %is = binade.compare %labels, %ignored {comparison = #binade.comparison<equal>} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
  %valid = binade.not %is : (tensor<3xi1>) -> tensor<3xi1>
  %safe = binade.select %valid, %labels, %none : (tensor<3xi1>, tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  %column = binade.reshape %safe : (tensor<3xi64>) -> tensor<3x1xi64>
  %checked = binade.check_index %column {high = 4 : i64, low = -4 : i64} : (tensor<3x1xi64>) -> tensor<3x1xi64>
  %below = binade.compare %checked, %zero {comparison = #binade.comparison<less>} : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi1>
  %shifted = binade.add %checked, %classes : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %wrapped = binade.select %below, %shifted, %checked : (tensor<3x1xi1>, tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %offset = binade.mul %wrapped, %one : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %count = binade.iota {axis = 0 : i64} : tensor<3x1xi64>
  %row = binade.mul %count, %classes : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %place = binade.add %offset, %row : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x1xi64>
  %logs = binade.log_softmax %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %flat = binade.reshape %logs : (tensor<3x4xf32>) -> tensor<12xf32>
  %picked = binade.gather %flat, %place : (tensor<12xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  %logarithm = binade.reshape %picked : (tensor<3x1xf32>) -> tensor<3xf32>
  %negative = binade.neg %logarithm : (tensor<3xf32>) -> tensor<3xf32>
  %losses = binade.select %valid, %negative, %nothing : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %sum = binade.reduce_sum %logs {axes = array<i64: 1>} : (tensor<3x4xf32>) -> tensor<3xf32>
  %both = binade.add %losses, %sum : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %both : tensor<3xf32>
}
