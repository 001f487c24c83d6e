//===- SamplePlan.h - A small plan with one record of each kind -*- C++ -*-===//

#ifndef BINADE_TEST_UNITTESTS_PLAN_SAMPLEPLAN_H
#define BINADE_TEST_UNITTESTS_PLAN_SAMPLEPLAN_H

#include "binade/Plan/Plan.h"

namespace binade {

inline Plan samplePlan() {
  using namespace plan;
  Plan p;
  p.model = "sample";
  p.policy = "fp32";
  p.policyHash = "00ff";
  p.computation = "c0de";
  p.dims = {{"batch", 4}};
  p.threads = 2;
  p.skipsNonFinite = true;
  p.buffers = {
      {"w", 0, 48, DType::F32, {4, 3}, Category::Parameter},
      {"x", 64, 64, DType::F32, {4, 4}, Category::Batch},
      {"y", 128, 48, DType::F32, {4, 3}, Category::Saved},
      {"labels", 192, 32, DType::I64, {4}, Category::Batch},
      {"loss", 256, 4, DType::F32, {}, Category::Scalar},
      {"lr", 320, 8, DType::F64, {}, Category::Scalar},
      {"image", 384, 144, DType::F32, {1, 2, 3, 6}, Category::Saved},
      {"kernel", 576, 48, DType::F32, {2, 2, 1, 3}, Category::Parameter},
      {"feature", 640, 96, DType::F32, {1, 2, 3, 4}, Category::Saved},
  };
  p.arenaBytes = 768;
  p.ledger = {{Category::Parameter, 256}, {Category::Saved, 512}};
  p.ports = {
      {Role::Parameter, "w", 0, ExternalInit{"w.safetensors", 96, 48, ""}, {}},
      {Role::Parameter,
       "kernel",
       7,
       RandomInit{RandomInit::Uniform, -0.5, 1},
       {}},
      {Role::Batch, "x", 1, {}, {}},
      {Role::Batch, "labels", 3, {}, IndexCheck{0, 3, -100}},
      {Role::Hyper, "lr", 5, FillInit{1e-3}, {}, NumberRange{0.0, {}, 2.5}},
      {Role::Metric, "loss", 4, {}, {}},
      {Role::Metric, "eval_loss", 4, {}, {}},
      {Role::Metric, "batch_loss", 4, {}, {}},
  };
  Matmul matmul;
  matmul.lhs = {1, 0, {4, 1}, {4}};
  matmul.rhs = {0, 0, {3, 1}, {}};
  matmul.out = {2, 0, {3, 1}, {3}};
  matmul.m = 1;
  matmul.n = 3;
  matmul.k = 4;
  Launch launch;
  launch.kernel = "mean";
  launch.segments = {{"", {{2, 0, {}, {}}, {4, 0, {}, {}}}, 4}};
  launch.grain = 2;
  launch.finish = true;
  launch.finishOperands = {{4, 0, {}, {}}};
  Convolution convolution;
  convolution.x.buffer = 6;
  convolution.weight.buffer = 7;
  convolution.y.buffer = 8;
  convolution.inChannels = convolution.outChannels = 2;
  convolution.input = {3, 6};
  convolution.kernel = {1, 3};
  convolution.output = {3, 4};
  convolution.strides = convolution.dilations = {1, 1};
  convolution.paddingLow = convolution.paddingHigh = {0, 0};
  Attention attention;
  attention.query = attention.key = {6, 0, {4, 1}, {}};
  attention.value = {6, 2, {4, 1}, {}};
  attention.y = {8, 0, {2, 1}, {}};
  attention.lse = {2, 0, {1}, {}};
  attention.queries = attention.keys = 4;
  attention.depth = attention.width = 2;
  attention.scale = 0.5;
  attention.causal = true;
  Attention gradients = attention;
  gradients.gradients = {{8, 8, {2, 1}, {}},
                         {0, 0, {2, 1}, {}},
                         {2, 4, {2, 1}, {}},
                         {6, 0, {8, 1}, {}}};
  Copy copy{{0, 0, {1, 3}, {}}, {2, 0, {4, 1}, {}}, {3, 4}};
  p.records = {{"rows", Loop{4, {{"row", matmul}}}},
               {"mean", launch},
               {"conv", convolution},
               {"transpose", copy},
               {"attention", attention},
               {"gradients", gradients}};
  p.batches = 3;
  p.accumulation = {{"mean", launch}};
  p.evaluation = {{"mean", launch}};
  return p;
}

} // namespace binade

#endif // BINADE_TEST_UNITTESTS_PLAN_SAMPLEPLAN_H
