//===- DeviceStartsTest.cpp - Kernel launches of a record on a GPU --------===//

#include "binade/Plan/DeviceStarts.h"
#include "gtest/gtest.h"

using namespace binade;
using namespace binade::plan;
using Table = std::vector<std::int64_t>;

/// Two multi-tensor kernels, one with a finish, and an ordinary kernel.
static Plan devicePlan() {
  Plan plan;
  plan.chip = "sm_90";
  plan.deviceKernels = {{"sum",
                         0,
                         {{"sum_items", {0, 1, 1}, {64, 1, 1}},
                          {"sum_finish", {1, 1, 1}, {32, 1, 1}}}},
                        {"scale", 1, {{"scale_items", {0, 1, 1}, {64, 1, 1}}}},
                        {"relu", 2, {{"relu_items", {12, 2, 1}, {32, 4, 2}}}}};
  plan.buffers = {{"a", 64, 40, DType::F32, {10}},
                  {"b", 128, 6, DType::BF16, {3}},
                  {"workspace", 256, 64, DType::U8, {64}}};
  plan.arenaBytes = 320;
  return plan;
}

static Launch launchMultiTensor() {
  Launch launch;
  launch.kernel = "sum";
  launch.grain = 4;
  launch.finish = true;
  launch.segments = {{"sum", {{0, 0, {}, {}}, {2, 0, {}, {}}}, 10},
                     {"scale", {{1, 0, {}, {}}, {2, 48, {}, {}}}, 3},
                     {"sum", {{0, 4, {}, {}}, {2, 32, {}, {}}}, 4}};
  launch.finishOperands = {{1, 0, {}, {}}, {2, 0, {}, {}}};
  return launch;
}

TEST(DeviceStarts, AMultiTensorKernelHasARowForEachBlock) {
  Plan plan = devicePlan();
  auto starts = listStarts(plan, launchMultiTensor(), "all", "p");
  ASSERT_TRUE(starts) << render(starts.error());
  ASSERT_EQ(starts->size(), 3u);
  // Offsets of the operands, first item, end of the items.
  EXPECT_EQ((*starts)[0].entry->symbol, "sum_items");
  EXPECT_EQ((*starts)[0].blocks, 4);
  EXPECT_EQ((*starts)[0].table, (Table{64, 256, 0, 4,  //
                                       64, 256, 4, 8,  //
                                       64, 256, 8, 10, //
                                       80, 288, 0, 4}));
  EXPECT_EQ((*starts)[1].entry->symbol, "scale_items");
  EXPECT_EQ((*starts)[1].blocks, 1);
  EXPECT_EQ((*starts)[1].table, (Table{128, 304, 0, 3}));
  // The finish gets the number of blocks of all segments.
  EXPECT_EQ((*starts)[2].entry->symbol, "sum_finish");
  EXPECT_EQ((*starts)[2].blocks, 1);
  EXPECT_EQ((*starts)[2].table, (Table{128, 256, 5}));
}

TEST(DeviceStarts, OtherKernelsGetTheAddressesOfTheirOperands) {
  Plan plan = devicePlan();
  Launch launch;
  launch.kernel = "relu";
  launch.segments = {{"", {{0, 0, {}, {}}, {0, 4, {}, {8}}}, 10}};
  auto starts = listStarts(plan, launch, "act", "p");
  ASSERT_TRUE(starts) << render(starts.error());
  ASSERT_EQ(starts->size(), 1u);
  EXPECT_EQ((*starts)[0].kernel->module, 2u);
  EXPECT_EQ((*starts)[0].blocks, 12);
  EXPECT_TRUE((*starts)[0].table.empty());
  ASSERT_EQ((*starts)[0].operands.size(), 2u);
  EXPECT_EQ((*starts)[0].operands[1].steps, (Table{8}));
}

template <typename Change> static std::string rejection(Change change) {
  Plan plan = devicePlan();
  Launch launch = launchMultiTensor();
  change(plan, launch);
  auto starts = listStarts(plan, launch, "all", "p");
  return starts ? "accepted" : starts.error().message;
}

TEST(DeviceStarts, UnsupportedRecordsAreRefused) {
  EXPECT_EQ(rejection([](Plan &, Launch &l) { l.segments[1].kernel = "no"; }),
            "the plan has no device kernel 'no'");
  EXPECT_EQ(rejection([](Plan &p, Launch &) {
              p.deviceKernels[0].entries.pop_back();
            }),
            "kernel 'sum' has no finish");
  EXPECT_EQ(rejection([](Plan &, Launch &l) {
              l.segments[0].operands[0].offset = 1;
            }),
            "kernel 'sum' of 'all' gets buffer 'a' at an address that is not a "
            "multiple of 16");
  EXPECT_EQ(rejection([](Plan &, Launch &l) {
              l.segments[0].operands[0].steps = {4};
            }),
            "'all' is a multi-tensor launch inside of a loop");
  EXPECT_EQ(rejection([](Plan &, Launch &l) {
              l.grain = 1;
              l.segments[0].extent = (std::int64_t(1) << 24) + 1;
            }),
            "'all' has more than 16777216 blocks of 1 items");
  EXPECT_EQ(rejection([](Plan &, Launch &l) {
              for (Segment &segment : l.segments)
                segment.kernel = "relu";
            }),
            "kernel 'relu' has 3 segments");
}

TEST(DeviceStarts, KernelsOfRecordsNeedTheirAlignment) {
  Plan plan = devicePlan();
  // The address of the source is only a multiple of 8 bytes.
  Copy copy{{0, 0, {}, {2}}, {0, 8, {}, {}}, {2}, "relu"};
  Record record;
  record.label = "move";
  record.body = copy;
  auto starts = listStarts(plan, record, "p");
  ASSERT_FALSE(starts);
  EXPECT_EQ(starts.error().message,
            "kernel 'relu' of 'move' gets buffer 'a' at an address that is "
            "not a multiple of 16");
  plan.deviceKernels.back().alignments = {8, 16};
  EXPECT_TRUE(listStarts(plan, record, "p"));
}
