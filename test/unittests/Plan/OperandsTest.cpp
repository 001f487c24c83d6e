//===- OperandsTest.cpp - Operands and workspaces of records --------------===//

#include "SamplePlan.h"
#include "gtest/gtest.h"

using namespace binade;
using namespace binade::plan;
using Sizes = std::vector<std::int64_t>;

/// Returns name and buffer of each operand, "x6", or "y8!" if it is written.
static std::vector<std::string> name(const Record &record) {
  std::vector<std::string> names;
  for (const Operand &operand : listOperands(record))
    names.push_back(operand.name + std::to_string(operand.view.buffer) +
                    (operand.isWritten() ? "!" : ""));
  return names;
}

static std::vector<std::uint32_t> listKernelBuffers(const Record &record) {
  std::vector<std::uint32_t> buffers;
  for (const View &view : listKernelOperands(record))
    buffers.push_back(view.buffer);
  return buffers;
}

TEST(Operands, ListWhatEachRecordReadsAndWrites) {
  using Names = std::vector<std::string>;
  Plan plan = samplePlan();
  EXPECT_EQ(name(plan.records[0]), (Names{"lhs1", "rhs0", "out2!"}));
  EXPECT_EQ(name(plan.records[1]),
            (Names{"operand 02", "operand 14", "finish operand 04"}));
  EXPECT_EQ(name(plan.records[2]), (Names{"x6", "weight7", "y8!"}));
  EXPECT_EQ(name(plan.records[3]), (Names{"source0", "destination2!"}));
  EXPECT_EQ(name(plan.records[4]),
            (Names{"query6", "key6", "value6", "y8!", "lse2!"}));
  EXPECT_EQ(name(plan.records[5]),
            (Names{"query6", "key6", "value6", "y8", "lse2", "dy8", "dquery0!",
                   "dkey2!", "dvalue6!"}));
}

TEST(Operands, OfTensorsHaveSizesAndWorkspacesHaveNone) {
  Plan plan = samplePlan();
  std::vector<Operand> product = listOperands(plan.records[0]);
  EXPECT_EQ(product[0].sizes, (Sizes{1, 4}));
  EXPECT_EQ(product[1].sizes, (Sizes{4, 3}));
  EXPECT_EQ(product[2].sizes, (Sizes{1, 3}));
  std::vector<Operand> convolution = listOperands(plan.records[2]);
  EXPECT_EQ(convolution[0].sizes, (Sizes{1, 2, 3, 6}));
  EXPECT_EQ(convolution[1].sizes, (Sizes{2, 2, 1, 3}));
  EXPECT_TRUE(convolution[1].isDense);
  *findScratch(plan.records[4]) = View{3, 0, {}, {}};
  Operand scratch = listOperands(plan.records[4]).back();
  EXPECT_EQ(scratch.name, "scratch");
  EXPECT_FALSE(scratch.isTensor());
  EXPECT_EQ(scratch.sizes, Sizes());
}

TEST(Operands, OfADeviceKernelExcludeTheWorkspaceOfTheLibrary) {
  Record record = samplePlan().records[2];
  *findScratch(record) = View{4, 0, {}, {}};
  *findLibraryScratch(record) = View{5, 0, {}, {}};
  EXPECT_EQ(name(record).back(), "library_scratch5");
  EXPECT_EQ(listKernelBuffers(record),
            (std::vector<std::uint32_t>{6, 7, 8, 4}));
  // A gradient reads y, which comes first.
  auto &convolution = std::get<Convolution>(record.body);
  convolution.direction = Convolution::InputGrad;
  EXPECT_EQ(listKernelBuffers(record),
            (std::vector<std::uint32_t>{8, 7, 6, 4}));
  convolution.direction = Convolution::WeightGrad;
  EXPECT_EQ(listKernelBuffers(record),
            (std::vector<std::uint32_t>{8, 6, 7, 4}));
}

TEST(Operands, MissingFieldsOfARecordAreNotFound) {
  Plan plan = samplePlan();
  for (std::size_t i : {0, 1})
    EXPECT_EQ(findKernelName(plan.records[i]), nullptr);
  for (std::size_t i : {2, 3, 4})
    EXPECT_NE(findKernelName(plan.records[i]), nullptr);
  EXPECT_EQ(findScratch(plan.records[3]), nullptr);
  EXPECT_EQ(findLibraryScratch(plan.records[3]), nullptr);
  EXPECT_NE(findLibraryScratch(plan.records[2]), nullptr);
  EXPECT_EQ(getKind(plan.records[4]), "attention");
}
