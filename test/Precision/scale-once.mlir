// RUN: binade-opt %s --binade-materialize-precision --binade-materialize-precision | FileCheck %s

// A step whose gradients are constant has no gradient seed left: its loss scale is still
// created once.

// CHECK-LABEL: func.func @step(
// CHECK-COUNT-1: binade.update_scale
// CHECK-NOT:     binade.update_scale
module attributes {binade.policy = #binade.policy<name = "p", hash = "", text = "{name: p, narrow: f16, wide: f32, loss_scale: {}}">} {
  func.func @step(%bad: tensor<i1>)
      -> (tensor<i1> {binade.role = #binade.role<metric>, binade.name = "found_inf"}) {
    return %bad : tensor<i1>
  }
}
