//===- AttentionRecordsTest.cpp - Biases in records of attention ----------===//

#include "SamplePlan.h"
#include "binade/Plan/PlanJson.h"
#include "gtest/gtest.h"

using namespace binade;
using namespace binade::plan;

/// Returns the sample plan, whose gradients of attention have two biases, of
/// all keys and of all queries, and the gradient of the second.
static Plan samplePlanWithBiases() {
  Plan plan = samplePlan();
  auto &attention = std::get<Attention>(plan.records[5].body);
  attention.extras.biases = {{7, 0, {1, 0}, {}}, {7, 4, {0, 1}, {}}};
  attention.gradients->dbiases = {{1, {0, 8, {0, 1}, {}}}};
  return plan;
}

static Attention &attentionOf(Plan &plan) {
  return std::get<Attention>(plan.records[5].body);
}

TEST(AttentionRecords, GradientsOfBiasesAreWrittenAndRead) {
  Plan plan = samplePlanWithBiases();
  Result<Plan> read = readPlan(writePlan(plan), "plan");
  ASSERT_TRUE(read) << render(read.error());
  const auto &dbiases = attentionOf(*read).gradients->dbiases;
  ASSERT_EQ(dbiases.size(), 1u);
  EXPECT_EQ(dbiases[0].bias, 1);
  EXPECT_EQ(dbiases[0].view.offset, 8);
  EXPECT_EQ(writePlan(*read), writePlan(plan));
}

TEST(AttentionRecords, WriteOneElementAlongAxesOfABroadcast) {
  Plan plan = samplePlanWithBiases();
  using Sizes = std::vector<std::int64_t>;
  std::vector<Operand> operands = listOperands(plan.records[5]);
  ASSERT_EQ(operands.size(), 12u);
  EXPECT_EQ(operands[9].name, "bias 0");
  EXPECT_EQ(operands[9].sizes, (Sizes{4, 1}));
  EXPECT_EQ(operands[11].name, "dbias 1");
  EXPECT_EQ(operands[11].sizes, (Sizes{1, 4}));
  EXPECT_TRUE(operands[11].isWritten());
}

TEST(AttentionRecords, GradientsOfBiasesAreChecked) {
  auto rejection = [](auto change) -> std::string {
    Plan plan = samplePlanWithBiases();
    change(plan, attentionOf(plan).gradients->dbiases);
    Result<void> valid = validate(plan, "p");
    return valid ? "accepted" : valid.error().message;
  };
  using List = std::vector<Attention::BiasGradient>;
  EXPECT_EQ(rejection([](Plan &, List &) {}), "accepted");
  EXPECT_EQ(rejection([](Plan &, List &list) { list[0].bias = 2; }),
            "the gradient of bias 2, expected ascending indices below 2");
  EXPECT_EQ(rejection([](Plan &, List &list) { list[0].bias = -1; }),
            "the gradient of bias -1, expected ascending indices below 2");
  EXPECT_EQ(rejection([](Plan &, List &list) { list.push_back(list[0]); }),
            "the gradient of bias 1, expected ascending indices below 2");
  EXPECT_EQ(rejection([](Plan &, List &list) { list[0].bias = 0; }),
            "dbias 0 has strides of 0 along other axes than the bias");
  EXPECT_EQ(rejection([](Plan &, List &list) { list[0].view.strides = {1}; }),
            "dbias 1 has strides of 0 along other axes than the bias");
  EXPECT_EQ(rejection([](Plan &, List &list) { list[0].view.offset = 9; }),
            "dbias 1 reaches element 12 of buffer 'w', which has 12");
}
