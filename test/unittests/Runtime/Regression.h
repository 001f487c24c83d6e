//===- Regression.h - A program that trains one weight ----------*- C++ -*-===//

#ifndef BINADE_TEST_UNITTESTS_RUNTIME_REGRESSION_H
#define BINADE_TEST_UNITTESTS_RUNTIME_REGRESSION_H

#include "KernelBundle.h"
#include "binade/Runtime/Training.h"
#include "nlohmann/json.hpp"
#include "gtest/gtest.h"
#include <cstdlib>
#include <filesystem>

namespace binade {

/// A plan that runs the kernel `regression` of Kernels.c: inputs x F32 [4] and
/// t I64 [4] in [0, 100) or -1, parameter w = 2, hyper-parameter lr = 0.5.
inline Plan regressionPlan() {
  using namespace plan;
  Plan plan;
  plan.model = "regression";
  plan.policyHash = "abc";
  plan.skipsNonFinite = true;
  std::vector<View> operands;
  auto add = [&](Role role, std::string name, DType dtype,
                 std::vector<std::int64_t> shape, Init init = {}) {
    std::uint64_t bytes = byteSize(dtype) * (shape.empty() ? 1 : shape[0]);
    auto index = static_cast<std::uint32_t>(plan.buffers.size());
    plan.buffers.push_back({name, plan.arenaBytes, bytes, dtype,
                            std::move(shape), Category::Workspace});
    plan.ports.push_back({role, name, index, std::move(init), {}});
    plan.arenaBytes += 64;
    operands.push_back({index, 0, {}, {}});
  };
  add(Role::Parameter, "w", DType::F32, {1}, FillInit{2});
  add(Role::Batch, "x", DType::F32, {4});
  add(Role::Batch, "t", DType::I64, {4});
  add(Role::Hyper, "lr", DType::F64, {}, FillInit{0.5});
  add(Role::Metric, "loss", DType::F32, {});
  add(Role::Gradient, "w", DType::F32, {1});
  add(Role::Metric, "found_inf", DType::BOOL, {});
  add(Role::Step, "step", DType::I64, {}, FillInit{0});
  add(Role::Buffer, "running", DType::F32, {1}, FillInit{0});
  add(Role::Rng, "rng", DType::I64, {2});
  plan.ports[2].check = IndexCheck{0, 100, -1};
  Launch launch;
  launch.kernel = "regression";
  launch.segments = {{"", operands, 1}};
  plan.records = {{"regression", launch}};
  plan.ledger = {{Category::Workspace, plan.arenaBytes}};
  return plan;
}

/// Adds a loss scale that no kernel reads.
inline void addScaler(Plan &plan, double value) {
  auto index = static_cast<std::uint32_t>(plan.buffers.size());
  plan.buffers.push_back(
      {"scale", plan.arenaBytes, 4, DType::F32, {}, plan::Category::Workspace});
  plan.ports.push_back(
      {plan::Role::Scaler, "scale", index, plan::FillInit{value}, {}});
  plan.arenaBytes += 64;
  plan.ledger = {{plan::Category::Workspace, plan.arenaBytes}};
}

/// Trains in a temporary directory that contains a data file.
class TrainingTest : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "binade-XXXXXX";
    directory = ::mkdtemp(pattern.data());
    data.path = path("data");
    options.out = path("run");
    options.steps = 1;
    options.order = Order::Sequential;
    writeData({{"x", floats}, {"t", targets}});
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  std::string path(const std::string &name) const {
    return directory + "/" + name;
  }

  using Values =
      std::variant<std::vector<float>, std::vector<std::uint8_t>,
                   std::vector<std::int8_t>, std::vector<std::int64_t>>;
  /// Writes one-dimensional tensors.
  void writeData(const std::map<std::string, Values> &values,
                 const std::string &name = "data") {
    std::vector<TensorBytes> tensors;
    constexpr DType types[] = {DType::F32, DType::U8, DType::I8, DType::I64};
    for (const auto &[tensor, value] : values)
      std::visit(
          [&](const auto &list) {
            tensors.push_back({tensor,
                               types[value.index()],
                               {static_cast<std::int64_t>(list.size())},
                               std::as_bytes(std::span(list))});
          },
          value);
    Result<void> done = writeSafetensors(path(name), tensors);
    if (!done)
      throw std::runtime_error(render(done.error()));
  }

  using Training = Result<TrainSummary>;
  Training trainPlan(Plan plan) {
    program.emplace(loadWithKernels(std::move(plan), 1));
    if (Result<void> done = program->initialize(options.seed); !done)
      return done.takeError();
    for (const auto &[hyper, value] : hypers)
      program->find(plan::Role::Hyper, hyper)->as<double>()[0] = value;
    if (!init.empty()) {
      Result<Safetensors> file = Safetensors::open(init);
      Result<Restored> restored =
          file ? program->restore(*file) : Result<Restored>(file.takeError());
      if (!restored)
        return restored.takeError();
    }
    Result<Data> opened = Data::open(*program, data);
    if (!opened)
      return opened.takeError();
    return binade::train(*program, *opened, options, listener);
  }
  Training train() { return trainPlan(regressionPlan()); }

  /// Returns exit code and error of a run, which must fail and write no files.
  std::string rejection() {
    Training result = train();
    if (result)
      return "accepted";
    EXPECT_FALSE(std::filesystem::exists(options.out));
    std::string text = render(result.error());
    for (std::size_t at; (at = text.find(directory + "/")) != text.npos;)
      text.erase(at, directory.size() + 1);
    return std::to_string(result.error().exitCode) + " " + text;
  }

  std::vector<nlohmann::json> metrics() const {
    std::ifstream file(path("run/metrics.jsonl"));
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);)
      lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  template <typename T>
  std::vector<T> saved(const std::string &tensor,
                       const std::string &file = "run/final.safetensors") {
    Result<Safetensors> opened = Safetensors::open(path(file));
    EXPECT_TRUE(opened) << render(opened.error());
    std::vector<T> values(opened->find(tensor)->bytes / sizeof(T));
    EXPECT_TRUE(opened->read(*opened->find(tensor),
                             std::as_writable_bytes(std::span(values))));
    return values;
  }

  /// The losses, gradients and final weight of plain gradient descent.
  struct Descent {
    std::vector<float> losses, gradients;
    float w = 2;
  };
  Descent descend(const std::vector<std::array<std::size_t, 4>> &batches,
                  float lr = 0.5f) const {
    Descent d;
    for (const auto &batch : batches) {
      float loss = 0, gradient = 0;
      for (std::size_t sample : batch) {
        float error =
            d.w * floats[sample] - static_cast<float>(targets[sample]);
        loss += error * error / 4;
        gradient += error * floats[sample] / 2;
      }
      d.losses.push_back(loss);
      d.gradients.push_back(gradient);
      d.w -= lr * gradient;
    }
    return d;
  }

  std::string directory;
  DataOptions data;
  TrainOptions options;
  std::map<std::string, double> hypers;
  std::string init; ///< A file with the state to start from.
  std::function<void(const StepMetrics &)> listener;
  std::optional<Program> program;
  std::vector<float> floats = {1,     0.5f, -1,     0.25f,  0.75f,
                               -0.5f, 1,    -0.25f, 0.125f, 1};
  std::vector<std::uint8_t> targets = {3, 1, 0, 2, 4, 0, 3, 1, 99, 2};
};

} // namespace binade

#endif // BINADE_TEST_UNITTESTS_RUNTIME_REGRESSION_H
