//===- RecordRunnerTest.cpp - Execution of single records -----------------===//

#include "binade/Runtime/RecordRunner.h"
#include "KernelBundle.h"
#include "OneRecord.h"

using namespace binade;
using namespace binade::plan;

/// Runs the kernel `number` in two nested loops, then copies ten elements.
static Plan loopsAndCopy(std::int64_t slots) {
  Tensors tensors;
  std::uint32_t values = tensors.add(DType::F32, {2});
  std::uint32_t out = tensors.add(DType::F32, {2, 3, 5});
  std::uint32_t first = tensors.add(DType::F32, {10});
  Launch launch;
  launch.kernel = "number";
  launch.segments = {{"", {{values, 0, {}, {1}}, {out, 0, {}, {15, 5}}}, 5}};
  Loop inner{3, {{"number", launch}}, slots};
  Copy copy{{out, 0, {1}, {}}, {first, 0, {1}, {}}, {10}};
  tensors.plan.records = {{"outer", Loop{2, {{"inner", inner}}}},
                          {"copy", copy}};
  tensors.plan.ledger = {{Category::Workspace, tensors.plan.arenaBytes}};
  return tensors.plan;
}

template <typename T> static std::span<const std::byte> bytesOf(const T &x) {
  return std::as_bytes(std::span(x));
}

TEST(RecordRunner, ExecutesOneRecordAtATime) {
  for (std::int64_t slots : {0, 2}) {
    Program program = loadWithKernels(loopsAndCopy(slots), 2);
    const Plan &plan = program.getPlan();
    std::unique_ptr<RecordRunner> runner = program.createRecordRunner();
    ASSERT_TRUE(
        runner->write(plan.buffers[0].offset, bytesOf(std::array{1.f, 2.f})));
    // The kernel accumulates, which shows that each iteration runs once.
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t j = 0; j < 3; ++j) {
        auto number = static_cast<std::size_t>(15 * i + 5 * j);
        std::span<float> out = tensorOf(program, 1).as<float>();
        EXPECT_EQ(out[number + 4], 0);
        ASSERT_TRUE(runner->run({RecordList::Step, {0, 0, 0}, {i, j}}));
        EXPECT_EQ(out[number + 4], static_cast<float>(1000 * (i + 1) + 4));
      }
    }
    EXPECT_EQ(tensorOf(program, 2).as<float>()[9], 0);
    ASSERT_TRUE(runner->run({RecordList::Step, {1}, {}}));
    std::array<float, 2> read;
    ASSERT_TRUE(runner->read(plan.buffers[2].offset + 8 * sizeof(float),
                             std::as_writable_bytes(std::span(read))));
    EXPECT_EQ(read, (std::array{1003.f, 1004.f}));
  }
}

TEST(RecordRunner, ExecutesRecordsOfAllPrograms) {
  Plan plan = loopsAndCopy(0);
  plan.evaluation = {plan.records[1]};
  plan.buffers.push_back(
      {"loss", plan.arenaBytes, 4, DType::F32, {}, Category::Workspace});
  plan.ports.push_back({Role::Metric,
                        std::string(kEvalLoss),
                        static_cast<std::uint32_t>(plan.buffers.size() - 1),
                        {},
                        {}});
  plan.arenaBytes += 64;
  plan.ledger = {{Category::Workspace, plan.arenaBytes}};
  EXPECT_EQ(&getRecords(plan, RecordList::Step), &plan.records);
  EXPECT_EQ(&getRecords(plan, RecordList::Accumulation), &plan.accumulation);
  EXPECT_EQ(&getRecords(plan, RecordList::Evaluation), &plan.evaluation);
  Program program = loadWithKernels(plan, 1);
  tensorOf(program, 1).as<float>()[3] = 7;
  ASSERT_TRUE(
      program.createRecordRunner()->run({RecordList::Evaluation, {0}, {}}));
  EXPECT_EQ(tensorOf(program, 2).as<float>()[3], 7);
}
