//===- ProfileTest.cpp - Costs of records, profiles and traces ------------===//

#include "KernelBundle.h"
#include "OneRecord.h"
#include "nlohmann/json.hpp"
#include <filesystem>
#include <unistd.h>

using namespace binade;
using namespace binade::plan;
using nlohmann::json;

static View at(std::uint32_t buffer, std::int64_t offset = 0,
               std::vector<std::int64_t> steps = {}) {
  return {buffer, offset, {}, std::move(steps)};
}

TEST(RecordCost, MatmulsCountABroadcastOperandOnce) {
  Tensors tensors;
  std::uint32_t lhs = tensors.add(DType::BF16, {2, 3, 5});
  std::uint32_t rhs = tensors.add(DType::F32, {5, 4});
  std::uint32_t out = tensors.add(DType::F32, {2, 3, 4});
  Matmul matmul;
  matmul.batch = {2};
  matmul.m = 3;
  matmul.n = 4;
  matmul.k = 5;
  matmul.lhs = {lhs, 0, {15, 5, 1}, {}};
  matmul.rhs = {rhs, 0, {0, 4, 1}, {}};
  matmul.out = {out, 0, {12, 4, 1}, {}};
  RecordCost cost = costOf({"", matmul}, tensors.plan.buffers);
  EXPECT_EQ(cost.bytes, 2u * 30 + 4u * 20 + 4u * 24);
  EXPECT_EQ(cost.flops, 2.0 * 2 * 3 * 4 * 5);
  EXPECT_EQ(cost.dtype, DType::F32);
  matmul.accumulate = true;
  EXPECT_EQ(costOf({"", matmul}, tensors.plan.buffers).bytes,
            2u * 30 + 4u * 20 + 2u * 4 * 24);
}

TEST(RecordCost, MatmulsOfQuantizedOperandsCountTheirScales) {
  Tensors tensors;
  std::uint32_t codes = tensors.add(DType::F8_E5M2, {4, 4});
  std::uint32_t out = tensors.add(DType::F32, {4, 4});
  std::uint32_t scale = tensors.add(DType::F32, {});
  Matmul matmul;
  matmul.m = matmul.n = matmul.k = 4;
  matmul.lhs = {codes, 0, {4, 1}, {}};
  matmul.rhs = {codes, 0, {1, 4}, {}};
  matmul.out = {out, 0, {4, 1}, {}};
  matmul.lhsScale = {scale, 0, {}, {}};
  matmul.rhsScale = {scale, 0, {}, {}};
  RecordCost cost = costOf({"", matmul}, tensors.plan.buffers);
  EXPECT_EQ(cost.bytes, 16u + 16 + 4 * 16 + 4 + 4);
  EXPECT_EQ(cost.dtype, DType::F8_E5M2);
  // The lhs has scales of 4 rows x 2 blocks, the rhs of 2 x 2 blocks.
  std::uint32_t scales = tensors.add(DType::F32, {8});
  matmul.block = plan::ScaleBlock{1, 2, 2};
  matmul.lhsScale = {scales, 0, {1, 4}, {}};
  matmul.rhsScale = {scales, 0, {4, 1}, {}};
  EXPECT_EQ(costOf({"", matmul}, tensors.plan.buffers).bytes,
            16u + 16 + 4 * 16 + 4 * 8 + 4 * 4);
}

TEST(RecordCost, LaunchesCountEachBufferOnceAndInPlaceOperandsTwice) {
  Tensors tensors;
  std::uint32_t long_ = tensors.add(DType::F32, {8});
  std::uint32_t short_ = tensors.add(DType::F32, {4});
  std::uint32_t scalar = tensors.add(DType::F64, {});
  Launch launch;
  launch.segments = {{"", {at(long_), at(scalar), at(long_)}, 8},
                     {"", {at(short_), at(scalar), at(short_)}, 4}};
  EXPECT_EQ(costOf({"", launch}, tensors.plan.buffers).bytes,
            2u * 32 + 2u * 16 + 8);
  // Two segments of the same buffer count once.
  launch.segments = {{"", {at(long_)}, 5}, {"", {at(long_, 5)}, 3}};
  EXPECT_EQ(costOf({"", launch}, tensors.plan.buffers).bytes, 32u);
}

TEST(RecordCost, AnIterationCountsOnlyThePartOfABufferThatItAccesses) {
  Tensors tensors;
  std::uint32_t walked = tensors.add(DType::F32, {6, 4});
  std::uint32_t whole = tensors.add(DType::F32, {4});
  Launch launch;
  launch.segments = {{"", {at(walked, 0, {4}), at(whole)}, 4}};
  const std::int64_t counts[] = {6};
  EXPECT_EQ(costOf({"", launch}, tensors.plan.buffers, counts).bytes, 32u);
}

TEST(RecordCost, ConvolutionsAndCopiesAreCounted) {
  Tensors tensors;
  std::uint32_t x = tensors.add(DType::F32, {2, 4, 8, 8});
  std::uint32_t weight = tensors.add(DType::F32, {6, 2, 3, 3});
  std::uint32_t y = tensors.add(DType::F32, {2, 6, 6, 6});
  Convolution convolution;
  convolution.x = at(x);
  convolution.weight = at(weight);
  convolution.y = at(y);
  convolution.batch = 2;
  convolution.inChannels = 4;
  convolution.outChannels = 6;
  convolution.groups = 2;
  convolution.input = {8, 8};
  convolution.kernel = {3, 3};
  convolution.output = {6, 6};
  RecordCost cost = costOf({"", convolution}, tensors.plan.buffers);
  // Each output element is a sum over two channels and nine positions.
  EXPECT_EQ(cost.flops, 2.0 * (2 * 6 * 36) * (2 * 9));
  EXPECT_EQ(cost.bytes, 4u * (512 + 108 + 432));

  Copy broadcast{{weight, 0, {0, 1}, {}}, {x, 0, {4, 1}, {}}, {8, 4}};
  EXPECT_EQ(costOf({"", broadcast}, tensors.plan.buffers).bytes, 4u * (4 + 32));
}

TEST(RecordCost, CausalAttentionCountsOnlyVisibleKeys) {
  Tensors tensors;
  std::uint32_t q = tensors.add(DType::BF16, {2, 5, 4});
  std::uint32_t v = tensors.add(DType::BF16, {2, 5, 3});
  std::uint32_t lse = tensors.add(DType::F32, {2, 5});
  Attention attention;
  attention.query = attention.key = {q, 0, {20, 4, 1}, {}};
  attention.value = attention.y = {v, 0, {15, 3, 1}, {}};
  attention.lse = {lse, 0, {5, 1}, {}};
  attention.batch = {2};
  attention.queries = attention.keys = 5;
  attention.depth = 4;
  attention.width = 3;
  RecordCost cost = costOf({"", attention}, tensors.plan.buffers);
  EXPECT_EQ(cost.flops, 2.0 * (2 * 25) * (4 + 3));
  EXPECT_EQ(cost.bytes, 2u * (40 + 40 + 30 + 30) + 4u * 10);
  EXPECT_EQ(cost.dtype, DType::BF16);
  attention.causal = true;
  attention.gradients = {attention.y, attention.query, attention.key,
                         attention.value};
  cost = costOf({"", attention}, tensors.plan.buffers);
  EXPECT_EQ(cost.flops, 2.0 * (2 * 15) * (3 * 4 + 2 * 3));
  EXPECT_EQ(cost.bytes, 2u * (4 * 40 + 4 * 30) + 4u * 10);
}

TEST(Ceilings, TheMinimumTimeIsTheLargerOfMemoryAndArithmetic) {
  Ceilings ceilings;
  ceilings.bytesPerSecond = 100;
  ceilings.flopsPerSecond = {{DType::F32, 10}, {DType::BF16, 40}};
  EXPECT_EQ(ceilings.rooflineSeconds({200, 80, DType::F32}), 8);
  EXPECT_EQ(ceilings.rooflineSeconds({200, 80, DType::BF16}), 2);
  EXPECT_EQ(ceilings.rooflineSeconds({200, 80, DType::F16}), 2);
  EXPECT_EQ(Ceilings().rooflineSeconds({200, 80, DType::F32}), 0);
}

/// Loads a loop of three iterations with a launch, and a launch after it. The
/// loop is sequential for `slots` = 0, otherwise parallel.
static Program loadLoop(std::int64_t slots) {
  Tensors tensors;
  std::uint32_t walked = tensors.add(DType::I64, {3, 8});
  std::uint32_t out = tensors.add(DType::I64, {8});
  auto launch = [&](View view) {
    Launch launch;
    launch.kernel = "width";
    launch.segments = {{"", {std::move(view)}, 8}};
    return launch;
  };
  tensors.plan.records = {
      {"loop", Loop{3, {{"in \"loop\"", launch(at(walked, 0, {8}))}}, slots}},
      {"after", launch(at(out))}};
  tensors.plan.ledger = {{Category::Workspace, tensors.plan.arenaBytes}};
  return loadWithKernels(tensors.plan, 2);
}

TEST(Profile, NamesRecordsAndCountsTheirCalls) {
  Program program = loadLoop(0);
  ASSERT_TRUE(program.run());
  program.setProfiling(true);
  ASSERT_TRUE(program.run());
  ASSERT_TRUE(program.run());
  Profile profile = program.getProfile();
  EXPECT_EQ(profile.steps, 2);
  ASSERT_EQ(profile.records.size(), 2u);
  const RecordProfile &row = profile.records[0];
  EXPECT_EQ(row.label, "in \"loop\"");
  EXPECT_EQ(row.kind, "launch");
  EXPECT_EQ(row.program, "step");
  EXPECT_EQ(row.calls, 6);
  EXPECT_EQ(row.cost.bytes, 64u);
  EXPECT_GT(row.seconds, 0);
  EXPECT_EQ(profile.records[1].calls, 2);
  EXPECT_LE(row.seconds + profile.records[1].seconds, profile.seconds);
}

static json traceOf(const Program &program, const Profile &profile) {
  std::string path = std::filesystem::temp_directory_path() /
                     ("binade-trace-" + std::to_string(::getpid()) + ".json");
  EXPECT_TRUE(program.writeTrace(path, profile));
  json trace = json::parse(std::ifstream(path));
  std::filesystem::remove(path);
  return trace;
}

TEST(Profile, TracesNestCallsInLoopsInSteps) {
  Program program = loadLoop(0);
  program.setProfiling(true);
  ASSERT_TRUE(program.run());
  ASSERT_TRUE(program.run());
  Profile profile = program.getProfile();
  profile.ceilings.bytesPerSecond = 1e9;
  json trace = traceOf(program, profile);
  std::map<std::string, std::vector<json>> byName;
  for (const json &event : trace["traceEvents"])
    if (event["ph"] == "X")
      byName[event["name"]].push_back(event);
  ASSERT_EQ(byName.size(), 5u);
  auto contains = [](const json &outer, const json &inner) {
    double begin = outer["ts"], end = begin + outer["dur"].get<double>(),
           start = inner["ts"], rounding = 0.002;
    return outer["tid"] == inner["tid"] && begin <= start + rounding &&
           start + inner["dur"].get<double>() <= end + rounding;
  };
  ASSERT_EQ(byName["loop"].size(), 2u);
  EXPECT_EQ(byName["loop"][0]["args"]["iterations"], 3);
  ASSERT_EQ(byName["in \"loop\""].size(), 6u);
  for (std::size_t step = 0; step < 2; ++step) {
    const json &run = byName["step " + std::to_string(step + 1)].at(0);
    EXPECT_TRUE(contains(run, byName["loop"][step]));
    EXPECT_TRUE(contains(run, byName["after"].at(step)));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(
          contains(byName["loop"][step], byName["in \"loop\""][3 * step + i]));
  }
  const json &call = byName["after"][0];
  EXPECT_EQ(call["args"]["bytes"], 64);
  // 64 bytes at 1 GB/s are 0.064 microseconds.
  EXPECT_NEAR(call["args"]["roofline"].get<double>(),
              0.064 / call["dur"].get<double>(), 0.01);
}

TEST(Profile, SlotsOfAParallelLoopShareItsTime) {
  Program program = loadLoop(2);
  program.setProfiling(true);
  ASSERT_TRUE(program.run());
  Profile profile = program.getProfile();
  const RecordProfile &row = profile.records.at(0);
  EXPECT_EQ(row.lanes, 2u);
  EXPECT_EQ(row.calls, 3);
  double calls = 0, loop = 0;
  json trace = traceOf(program, profile);
  for (const json &event : trace["traceEvents"]) {
    if (event["name"] == "loop")
      loop = event["dur"];
    if (event["name"] != row.label)
      continue;
    EXPECT_GE(event["tid"], 1);
    calls += event["dur"].get<double>();
  }
  EXPECT_NEAR(row.seconds, calls / 2 * 1e-6, 1e-8);
  EXPECT_LE(row.seconds, loop * 1e-6);
}

TEST(Profile, CeilingsAreMeasured) {
  Program program = loadLoop(0);
  Ceilings ceilings = program.measureCeilings();
  EXPECT_GT(ceilings.bytesPerSecond, 0);
  ASSERT_EQ(ceilings.flopsPerSecond.size(), 1u);
  EXPECT_GT(ceilings.flopsPerSecond[DType::F32], 0);
  EXPECT_EQ(ceilings.sources.size(), 2u);
}
