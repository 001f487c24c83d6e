//===- SavedTensors.cpp - Files with the tensors of a step ----------------===//

#include "SavedTensors.h"

using namespace binade;
using namespace binade::plan;

Result<void> binade::saveGradients(const std::string &run,
                                   const Program &program,
                                   const StepMetrics &metrics) {
  auto batches = static_cast<double>(program.getPlan().batches);
  auto inverse =
      static_cast<float>(1.0 / (metrics.lossScale.value_or(1.0) * batches));
  std::vector<Tensor> gradients = program.read(Role::Gradient);
  std::vector<std::vector<float>> values;
  std::vector<TensorBytes> stored;
  for (const Tensor &tensor : gradients) {
    std::vector<float> &unscaled = values.emplace_back();
    for (float value : tensor.as<float>())
      unscaled.push_back(value * inverse);
    stored.push_back({std::string(tensor.name),
                      DType::F32,
                      {tensor.shape.begin(), tensor.shape.end()},
                      std::as_bytes(std::span(unscaled))});
  }
  char name[64];
  std::snprintf(name, sizeof(name), "/grads-%06lld.safetensors",
                static_cast<long long>(metrics.step));
  return writeSafetensors(run + name, stored,
                          {{"step", std::to_string(metrics.step)}});
}

Result<void> binade::saveInputs(const std::string &path, const Program &program,
                                std::int64_t step) {
  std::vector<TensorBytes> stored;
  for (Role role :
       {Role::Parameter, Role::Buffer, Role::State, Role::Scaler, Role::Rng,
        Role::Step, Role::Accumulator, Role::Batch, Role::Hyper})
    for (const Tensor &tensor : program.read(role))
      stored.push_back(
          {std::string(name(role)) + "/" + std::string(tensor.name),
           tensor.dtype,
           {tensor.shape.begin(), tensor.shape.end()},
           tensor.bytes});
  return writeSafetensors(path, stored, {{"step", std::to_string(step)}});
}
