//===- TrainingTest.cpp - Training runs and the files they write ----------===//

#include "Regression.h"
#include "binade/Runtime/Progress.h"
#include <sstream>

using namespace binade;
using namespace binade::plan;

TEST_F(TrainingTest, BatchesFollowTheDataAndEpochsDropTheRest) {
  options.steps = 3;
  hypers = {{"lr", 0.25}};
  Training result = train();
  ASSERT_TRUE(result) << render(result.error());
  // Samples 8 and 9 do not fill a batch of four and are dropped.
  Descent expected = descend({{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}}, 0.25f);
  std::vector<nlohmann::json> lines = metrics();
  ASSERT_EQ(lines.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lines[i]["step"], i + 1);
    EXPECT_EQ(lines[i]["loss"].get<float>(), expected.losses[i]);
    EXPECT_TRUE(lines[i]["grad_norm"].is_null());
    EXPECT_TRUE(lines[i]["loss_scale"].is_null());
    EXPECT_TRUE(lines[i]["eval_loss"].is_null());
    EXPECT_EQ(lines[i]["skipped"], false);
    EXPECT_GE(lines[i]["ms"].get<double>(), 0);
    EXPECT_EQ(lines[i]["lr"], 0.25);
    EXPECT_EQ(lines[i].size(), 8u);
  }
  EXPECT_EQ(saved<float>("w"), std::vector<float>{expected.w});
  EXPECT_EQ(saved<float>("running"), std::vector<float>{expected.losses[2]});
  EXPECT_EQ(saved<std::int64_t>("step"), std::vector<std::int64_t>{3});
  EXPECT_EQ(saved<std::int64_t>("rng"), (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(result->lastLoss, expected.losses[2]);
  EXPECT_EQ(result->epochs, 2u);
  EXPECT_EQ(result->skipped, 0);
}

TEST_F(TrainingTest, ShufflingVisitsEverySample) {
  options.steps = 4;
  options.seed = 7;
  options.order = Order::Shuffle;
  ASSERT_TRUE(train());
  // shuffle.py prints these orders for 10 samples and seed 7.
  Descent expected =
      descend({{4, 3, 6, 5}, {1, 9, 8, 7}, {1, 9, 5, 0}, {3, 8, 4, 7}});
  std::vector<nlohmann::json> lines = metrics();
  ASSERT_EQ(lines.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(lines[i]["loss"].get<float>(), expected.losses[i]);
}

TEST(SampleOrder, MatchesItsDefinition) {
  using Samples = std::vector<std::uint64_t>;
  // shuffle.py in this folder prints these orders.
  EXPECT_EQ(shuffle(10, 7, 0), (Samples{4, 3, 6, 5, 1, 9, 8, 7, 2, 0}));
  EXPECT_EQ(shuffle(10, 7, 1), (Samples{1, 9, 5, 0, 3, 8, 4, 7, 2, 6}));
  EXPECT_EQ(shuffle(10, (std::uint64_t(5) << 32) + 7, 0),
            (Samples{1, 0, 9, 4, 2, 8, 5, 3, 7, 6}));
  EXPECT_EQ(shuffle(1, 0, 0), Samples{0});
}

TEST(SampleOrder, SkippingGivesTheSameOrderAsDrawing) {
  auto copy = [](std::span<const std::uint64_t> samples) {
    return std::vector(samples.begin(), samples.end());
  };
  for (Order kind : {Order::Shuffle, Order::Sequential})
    for (std::uint64_t batch : {1, 3, 5, 10})
      for (std::uint64_t done = 0; done < 25; ++done) {
        SampleOrder walked(kind, 10, batch, 7), skipped(kind, 10, batch, 7);
        for (std::uint64_t i = 0; i < done; ++i)
          walked.next();
        skipped.skip(done);
        EXPECT_EQ(skipped.getEpoch(), walked.getEpoch());
        for (int i = 0; i < 12; ++i) {
          EXPECT_EQ(copy(skipped.next()), copy(walked.next()));
          EXPECT_EQ(skipped.getEpoch(), walked.getEpoch());
        }
      }
}

TEST_F(TrainingTest, StateIsResumed) {
  options.steps = 2;
  ASSERT_TRUE(train());
  init = path("run/final.safetensors");
  options.out = path("second");
  ASSERT_TRUE(train());
  Descent expected =
      descend({{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}, {4, 5, 6, 7}});
  EXPECT_EQ(saved<float>("w", "second/final.safetensors"),
            std::vector<float>{expected.w});
  EXPECT_EQ(saved<std::int64_t>("step", "second/final.safetensors")[0], 4);
  EXPECT_EQ(saved<std::int64_t>("rng", "second/final.safetensors"),
            (std::vector<std::int64_t>{0, 4}));
}

TEST_F(TrainingTest, GradientsAreSavedUnscaled) {
  options.steps = 3;
  options.saveGradients = 2;
  options.overwrite = true;
  Plan plan = regressionPlan();
  ASSERT_TRUE(trainPlan(plan));
  Descent expected = descend({{0, 1, 2, 3}, {4, 5, 6, 7}});
  auto gradient = [&](int step) {
    return saved<float>("w", "run/grads-00000" + std::to_string(step) +
                                 ".safetensors")[0];
  };
  EXPECT_EQ(gradient(1), expected.gradients[0]);
  EXPECT_EQ(gradient(2), expected.gradients[1]);
  EXPECT_FALSE(std::filesystem::exists(path("run/grads-000003.safetensors")));
  addScaler(plan, 8);
  ASSERT_TRUE(trainPlan(plan));
  EXPECT_EQ(gradient(1), expected.gradients[0] / 8);
}

TEST_F(TrainingTest, ANonFiniteLossStopsTheRunBeforeItsUpdate) {
  floats[5] = NAN;
  writeData({{"x", floats}, {"t", targets}});
  options.steps = 5;
  Training result = train();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().exitCode, 4);
  EXPECT_EQ(result.error().where, "step 2");
  Descent expected = descend({{0, 1, 2, 3}});
  EXPECT_EQ(saved<float>("w"), std::vector<float>{expected.w});
  EXPECT_EQ(saved<float>("running"), std::vector<float>{expected.losses[0]});
  EXPECT_EQ(saved<std::int64_t>("rng")[1], 1);
  EXPECT_EQ(saved<std::int64_t>("step")[0], 1);
  std::vector<nlohmann::json> lines = metrics();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[1]["loss"].is_null());
}

TEST_F(TrainingTest, NonFiniteStepsAreSkippedOnRequest) {
  floats[5] = NAN;
  writeData({{"x", floats}, {"t", targets}});
  options.steps = 3;
  options.onNonFinite = OnNonFinite::Skip;
  Training result = train();
  ASSERT_TRUE(result) << render(result.error());
  EXPECT_EQ(result->skipped, 1);
  EXPECT_EQ(metrics()[1]["skipped"], true);
  EXPECT_EQ(saved<float>("w"),
            std::vector<float>{descend({{0, 1, 2, 3}, {0, 1, 2, 3}}).w});
  EXPECT_EQ(saved<std::int64_t>("step")[0], 2);
}

TEST_F(TrainingTest, LossScalingSkipsNonFiniteStepsByDefault) {
  floats[5] = INFINITY;
  writeData({{"x", floats}, {"t", targets}});
  options.steps = 3;
  Plan plan = regressionPlan();
  addScaler(plan, 65536);
  Training result = trainPlan(plan);
  ASSERT_TRUE(result) << render(result.error());
  EXPECT_EQ(result->skipped, 1);
  EXPECT_EQ(metrics()[0]["loss_scale"], 65536);
  EXPECT_EQ(saved<float>("scaler/scale"), std::vector<float>{65536});
}

TEST_F(TrainingTest, OptionsThatContradictTheProgramAreRejected) {
  options.overwrite = true;
  auto rejected = [&](bool skips, bool scales, OnNonFinite choice) {
    Plan plan = regressionPlan();
    plan.skipsNonFinite = skips;
    if (scales)
      addScaler(plan, 1);
    options.onNonFinite = choice;
    Training result = trainPlan(plan);
    return result ? 0 : result.error().exitCode;
  };
  EXPECT_EQ(rejected(true, false, OnNonFinite::Stop), 0);
  EXPECT_EQ(rejected(true, false, OnNonFinite::Continue), 2);
  EXPECT_EQ(rejected(false, false, OnNonFinite::Skip), 2);
  EXPECT_EQ(rejected(false, false, OnNonFinite::Stop), 0); // After the step.
  EXPECT_EQ(rejected(false, false, OnNonFinite::Continue), 0);
  EXPECT_EQ(rejected(true, true, OnNonFinite::Stop), 2);
  options.onNonFinite.reset();
  options.saveGradients = 1;
  Plan plan = regressionPlan();
  plan.ports[5].role = Role::Output;
  Training result = trainPlan(plan);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().exitCode, 2);
}

TEST_F(TrainingTest, IndicesFoundByAKernelAreRejected) {
  Plan plan = regressionPlan();
  plan.ports[6].name = "out_of_range/k"; // 1 if the gradient is NaN.
  floats[5] = NAN;
  writeData({{"x", floats}, {"t", targets}});
  options.steps = 5;
  Training result = trainPlan(plan);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().exitCode, 3);
  EXPECT_EQ(result.error().message,
            "batch 2 leads to an index or label that is out of range, in 'k'");
}

TEST_F(TrainingTest, AnInterruptedRunSavesItsState) {
  options.steps = 100;
  int steps = 0;
  listener = [&](const StepMetrics &) { ++steps; };
  options.interrupted = [&] { return steps == 3 ? 143 : 0; };
  Training result = train();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->exitCode, 143);
  EXPECT_EQ(result->steps, 3);
  EXPECT_EQ(saved<std::int64_t>("step")[0], 3);
  EXPECT_EQ(metrics().size(), 3u);
}

TEST_F(TrainingTest, AnUnusableDirectoryIsAnError) {
  std::ofstream(path("file")) << "x";
  options.out = path("file/run");
  Training result = train();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().exitCode, 3);
  EXPECT_EQ(result.error().where, options.out);
}

static std::string showProgress(bool isTerminal, std::int64_t steps,
                                double milliseconds) {
  std::ostringstream out;
  Progress progress(out, isTerminal, steps);
  for (std::int64_t step = 1; step <= steps; ++step) {
    StepMetrics metrics;
    metrics.step = step;
    metrics.loss = 2.5;
    metrics.milliseconds = milliseconds;
    metrics.skipped = step == 2;
    if (step > 1)
      metrics.lossScale = 65536;
    if (step == 3) {
      metrics.learningRate = 1e-4;
      metrics.gradNorm = 1.23456;
    }
    progress.show(metrics);
  }
  progress.finish();
  return out.str();
}

TEST(Progress, RewritesOneLineOnATerminal) {
  std::string text = showProgress(true, 3, 500);
  EXPECT_EQ(text,
            "\r\x1b[?7lstep 1/3  loss 2.5  skipped 0  2 steps/s  ETA "
            "0:01\x1b[K\x1b[?7h"
            "\r\x1b[?7lstep 2/3  loss 2.5  scale 65536  skipped 1  2 steps/s  "
            "ETA 0:01\x1b[K\x1b[?7h"
            "\r\x1b[?7lstep 3/3  loss 2.5  lr 0.0001  grad_norm 1.23  scale "
            "65536  skipped 1  2 steps/s  ETA 0:00\x1b[K\x1b[?7h\n");
}

TEST(Progress, ShowsHighRatesWithoutExponents) {
  std::string text = showProgress(false, 1, 0.6);
  EXPECT_NE(text.find("  1667 steps/s  "), text.npos) << text;
}

TEST(Progress, PrintsLinesAtIntervalsWithoutATerminal) {
  // Steps of 10 ms: a line every two seconds, plus the first and the last.
  std::string text = showProgress(false, 500, 10);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_EQ(text.find_first_of("\r\x1b"), text.npos);
  EXPECT_EQ(text.find("step 1/500  loss 2.5"), 0u);
  EXPECT_NE(text.find("\nstep 201/500  "), text.npos);
  EXPECT_NE(text.find("\nstep 500/500  "), text.npos);
}
