//===- ShardStatesTest.cpp - Optimizer states of one rank ----------------===//

#include "binade/Plan/ShardStates.h"
#include "binade/Plan/DeviceStarts.h"
#include "binade/Plan/PlanJson.h"
#include "gtest/gtest.h"

using namespace binade;
using namespace binade::plan;

// Buffers and records of the plan below.
namespace {
enum : std::uint32_t { W, B, GW, GB, MW, Codes, Scales, MB, Lr, After };
enum : std::size_t { Start, JoinSums, Update, Read };
} // namespace

/// A step that updates w, of 20 elements in blocks of 8, with a state in f32
/// and one in codes with a scale for 4 of them, and b, of 3 elements, with one
/// state. A record after the update reads b.
static Plan updatingPlan() {
  Plan p;
  auto add = [&](const char *name, DType type, std::vector<std::int64_t> shape,
                 Category category) {
    std::uint64_t bytes = byteSize(type);
    for (std::int64_t size : shape)
      bytes *= static_cast<std::uint64_t>(size);
    p.buffers.push_back({name, p.arenaBytes, bytes, type, shape, category});
    p.arenaBytes += (bytes + 63) / 64 * 64;
    p.ledger[category] += bytes;
    p.ledger[Category::Unused] += (64 - bytes % 64) % 64;
  };
  add("w", DType::F32, {4, 5}, Category::Parameter);
  add("b", DType::BF16, {3}, Category::Parameter);
  add("gw", DType::F32, {4, 5}, Category::Gradient);
  add("gb", DType::F32, {3}, Category::Gradient);
  add("m/w", DType::F32, {4, 5}, Category::State);
  add("codes/w", DType::U8, {4, 5}, Category::State);
  add("scales/w", DType::F32, {5}, Category::State);
  add("m/b", DType::F32, {3}, Category::State);
  add("lr", DType::F64, {}, Category::Scalar);
  add("after", DType::F32, {3}, Category::Saved);
  p.buffers[GB].offset = p.buffers[GW].offset + 128;
  p.ports = {{Role::Parameter, "w", W, FillInit{1}, {}},
             {Role::Parameter, "b", B, FillInit{1}, {}},
             {Role::State, "m/w", MW, FillInit{0}, {}},
             {Role::State, "codes/w", Codes, FillInit{0}, {}},
             {Role::State, "scales/w", Scales, FillInit{0}, {}},
             {Role::State, "m/b", MB, CompanionInit{"b", Master::F32}, {}},
             {Role::Hyper, "lr", Lr, FillInit{1}, {}}};
  Exchange start;
  start.tensors = {{GW, 0, {}, {}}, {GB, 0, {}, {}}};
  start.elements = {20, 3};
  Exchange join;
  join.action = Exchange::Join;
  join.bucket = 1;
  auto views = [](std::initializer_list<std::uint32_t> buffers) {
    std::vector<View> list;
    for (std::uint32_t buffer : buffers)
      list.push_back({buffer, 0, {}, {}});
    return list;
  };
  Launch update;
  update.kernel = "update";
  update.grain = 8;
  update.updatesElements = true;
  update.segments = {
      {"narrow", views({W, GW, MW, Codes, Scales, Lr, W, MW}), 20},
      {"wide", views({B, GB, MB, Lr, B, MB}), 3}};
  Launch read;
  read.kernel = "read";
  read.segments = {{"", views({B, After}), 1}};
  p.records = {
      {"start", start}, {"join", join}, {"update", update}, {"read", read}};
  return p;
}

static const Launch &launchOf(const Plan &plan, std::size_t record) {
  return std::get<Launch>(plan.records[record].body);
}

static Plan divide(const Plan &plan, std::uint32_t rank, std::uint32_t size) {
  Plan divided = shardStates(plan, {rank, size});
  Result<void> valid = validate(divided, "p");
  EXPECT_TRUE(valid) << valid.error().part << ": " << valid.error().message;
  return divided;
}

static std::string shardOf(const Plan &plan, std::uint32_t buffer) {
  const Buffer &found = plan.buffers[buffer];
  std::int64_t first = found.shard ? found.shard->first : -1;
  return std::to_string(first) + " + " + std::to_string(found.shape.front());
}

TEST(ShardStates, AGroupOfOneHasThePlan) {
  EXPECT_EQ(writePlan(shardStates(updatingPlan(), {0, 1})),
            writePlan(updatingPlan()));
}

TEST(ShardStates, RanksHaveWholeBlocks) {
  // 132 bytes of states, 6 per element of w: the second rank would begin at
  // element 11, and 8 is the nearest block.
  Plan first = divide(updatingPlan(), 0, 2);
  EXPECT_EQ(shardOf(first, MW), "0 + 8");
  EXPECT_EQ(shardOf(first, Codes), "0 + 8");
  EXPECT_EQ(shardOf(first, Scales), "0 + 2");
  EXPECT_EQ(shardOf(first, MB), "0 + 0");
  ASSERT_EQ(launchOf(first, Update).segments.size(), 1u);
  EXPECT_EQ(launchOf(first, Update).segments[0].first, 0);
  EXPECT_EQ(launchOf(first, Update).segments[0].extent, 8);

  Plan second = divide(updatingPlan(), 1, 2);
  EXPECT_EQ(shardOf(second, MW), "8 + 12");
  EXPECT_EQ(shardOf(second, Codes), "8 + 12");
  EXPECT_EQ(shardOf(second, Scales), "2 + 3");
  EXPECT_EQ(shardOf(second, MB), "0 + 3");
  ASSERT_EQ(launchOf(second, Update).segments.size(), 2u);
  EXPECT_EQ(launchOf(second, Update).segments[0].first, 8);
  EXPECT_EQ(launchOf(second, Update).segments[0].extent, 20);
  EXPECT_EQ(second.buffers[MW].shard->shape, (std::vector<std::int64_t>{4, 5}));
}

TEST(ShardStates, RanksWithoutElementsLaunchNothing) {
  Plan plan = divide(updatingPlan(), 2, 7);
  EXPECT_EQ(plan.records[Update].label, "gather parameters");
  std::uint64_t own = 0;
  for (std::uint32_t rank = 0; rank < 7; ++rank)
    own += countStateBytes(divide(updatingPlan(), rank, 7)).own;
  EXPECT_EQ(own, countStateBytes(updatingPlan()).own);
}

TEST(ShardStates, AddressesAreThoseOfTheWholeTensor) {
  Plan plan = divide(updatingPlan(), 1, 2);
  const Buffer &state = plan.buffers[MW], &codes = plan.buffers[Codes];
  EXPECT_EQ(state.locate(8), static_cast<std::int64_t>(state.offset));
  EXPECT_EQ(codes.locate(19), static_cast<std::int64_t>(codes.offset) + 11);
  EXPECT_EQ(plan.buffers[Scales].locate(2),
            static_cast<std::int64_t>(plan.buffers[Scales].offset));
}

TEST(ShardStates, TheArenaShrinks) {
  Plan whole = updatingPlan(), plan = divide(whole, 0, 2);
  // 80 + 20 + 20 + 12 bytes of states become 32 + 8 + 8.
  EXPECT_EQ(plan.ledger[Category::State], 48u);
  EXPECT_EQ(plan.ledger[Category::Gradient], whole.ledger[Category::Gradient]);
  for (const Buffer &x : plan.buffers)
    for (const Buffer &y : plan.buffers)
      if (&x != &y && x.bytes && y.bytes)
        EXPECT_TRUE(x.offset + x.bytes <= y.offset ||
                    y.offset + y.bytes <= x.offset)
            << x.name << " overlaps " << y.name;
  StateBytes bytes = countStateBytes(plan);
  EXPECT_EQ(bytes.own, 48u);
  EXPECT_EQ(bytes.whole, 132u);
  EXPECT_EQ(bytes.repeated, 0u);
}

TEST(ShardStates, ParametersAreGatheredBeforeTheyAreRead) {
  Plan plan = divide(updatingPlan(), 1, 2);
  ASSERT_EQ(plan.records.size(), 6u);
  auto &gather = std::get<Exchange>(plan.records[Update + 1].body);
  EXPECT_EQ(gather.operation, Exchange::Gather);
  EXPECT_EQ(gather.bucket, 1u);
  EXPECT_EQ(gather.elements, (std::vector<std::int64_t>{20, 3}));
  EXPECT_EQ(gather.rankOffsets, (std::vector<std::int64_t>{0, 8, 23}));
  auto &join = std::get<Exchange>(plan.records[Update + 2].body);
  EXPECT_EQ(join.action, Exchange::Join);
  EXPECT_EQ(join.bucket, 2u);
  EXPECT_EQ(plan.records[Update + 3].label, "read");
}

TEST(ShardStates, TheSameElementsOfAllRanksAreTheWhole) {
  for (std::uint32_t size = 2; size <= 9; ++size) {
    std::vector<int> seen(23);
    for (std::uint32_t rank = 0; rank < size; ++rank)
      for (const Record &record : divide(updatingPlan(), rank, size).records)
        if (auto *launch = std::get_if<Launch>(&record.body);
            launch && launch->updatesElements)
          for (const Segment &segment : launch->segments)
            for (std::int64_t i = segment.first; i < segment.extent; ++i)
              ++seen[static_cast<std::size_t>(
                  i + (segment.kernel == "wide" ? 20 : 0))];
    EXPECT_EQ(seen, std::vector<int>(23, 1)) << size;
  }
}

TEST(ShardStates, StatesThatOtherRecordsAccessStayWhole) {
  Plan plan = updatingPlan();
  std::get<Launch>(plan.records[Read].body)
      .segments[0]
      .operands.push_back({Scales, 0, {}, {}});
  Plan divided = divide(plan, 0, 2);
  EXPECT_FALSE(divided.buffers[MW].shard);
  EXPECT_TRUE(divided.buffers[MB].shard);
  EXPECT_EQ(countStateBytes(divided).repeated, 120u);
  EXPECT_EQ(launchOf(divided, Update).segments[0].extent, 20);
}

TEST(ShardStates, StatesWhoseParameterIsReadTooEarlyStayWhole) {
  Plan plan = updatingPlan();
  Launch second = launchOf(plan, Update);
  auto &first = std::get<Launch>(plan.records[Update].body);
  second.segments = {first.segments[0]};
  first.segments.erase(first.segments.begin());
  plan.records.push_back({"second update", second});
  Plan divided = divide(plan, 0, 2);
  EXPECT_TRUE(divided.buffers[MW].shard);
  EXPECT_FALSE(divided.buffers[MB].shard);
}

TEST(ShardStates, StatesWithStoredValuesStayWhole) {
  Plan plan = updatingPlan();
  plan.ports[2].init = BundleInit{"m"};
  EXPECT_FALSE(divide(plan, 0, 2).buffers[MW].shard);
}

TEST(ShardStates, StatesWithUnknownGroupsHaveOneRank) {
  Plan plan = updatingPlan();
  plan.buffers[Scales].shape = {7}; // Of 3 elements, the last of 2.
  plan.buffers[Scales].bytes = 28;
  plan.ledger[Category::State] += 8;
  plan.ledger[Category::Unused] -= 8;
  Plan second = divide(plan, 1, 3), third = divide(plan, 2, 3);
  EXPECT_EQ(shardOf(second, MW), "0 + 20");
  EXPECT_EQ(shardOf(second, Scales), "0 + 7");
  EXPECT_EQ(shardOf(third, MW), "0 + 0");
  EXPECT_EQ(shardOf(third, MB), "0 + 3");
}

TEST(ShardStates, IsWrittenAndRead) {
  Plan plan = divide(updatingPlan(), 1, 2);
  std::string json = writePlan(plan);
  Result<Plan> read = readPlan(json, "p");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(writePlan(*read), json);
  EXPECT_EQ(read->shard->rank, 1u);
}

TEST(ShardStates, DevicesGetTheItemsOfTheRank) {
  Plan plan = divide(updatingPlan(), 1, 2);
  plan.chip = "sm_90";
  for (const char *name : {"narrow", "wide"})
    plan.deviceKernels.push_back(
        {name, 0, {{name, {0, 1, 1}, {32, 1, 1}}}, {1, 1, 1, 1, 1, 1, 1, 1}});
  auto starts = listStarts(plan, launchOf(plan, Update), "update", "p");
  ASSERT_TRUE(starts) << starts.error().message;
  const std::vector<std::int64_t> &table = (*starts)[0].table;
  ASSERT_EQ(table.size(), 2u * 10);
  EXPECT_EQ(table[8], 8);
  EXPECT_EQ(table[9], 16);
  EXPECT_EQ(table[18], 16);
  EXPECT_EQ(table[19], 20);
  EXPECT_EQ(table[2], static_cast<std::int64_t>(plan.buffers[MW].offset) - 32);
}

template <typename Change> static std::string rejection(Change change) {
  Plan plan = divide(updatingPlan(), 1, 2);
  change(plan);
  Result<void> valid = validate(plan, "p");
  return valid ? "accepted" : valid.error().message;
}

TEST(ShardStates, InvalidPartsAreRejected) {
  auto gather = [](Plan &p) -> Exchange & {
    return std::get<Exchange>(p.records[Update + 1].body);
  };
  auto segment = [](Plan &p) -> Segment & {
    return std::get<Launch>(p.records[Update].body).segments[0];
  };
  EXPECT_EQ(rejection([](Plan &p) { p.shard->rank = 2; }), "rank 2 of 2");
  EXPECT_EQ(
      rejection([](Plan &p) { p.buffers[MW].shard->first = 9; }),
      "a shard has 12 elements from element 9 on, which its tensor does not "
      "have");
  EXPECT_EQ(
      rejection([](Plan &p) { p.buffers[MW].shard->first = -1; }),
      "a shard has 12 elements from element -1 on, which its tensor does not "
      "have");
  EXPECT_EQ(
      rejection([](Plan &p) { p.buffers[MW].shape = {3, 4}; }),
      "a shard of a tensor needs a shape of one axis, and a plan for one rank "
      "of a group");
  EXPECT_EQ(rejection([&](Plan &p) { segment(p).first = 7; }),
            "a segment from item 7 on, expected a multiple of 8 below 20, and "
            "no finish");
  EXPECT_EQ(rejection([&](Plan &p) { gather(p).rankOffsets = {0, 9, 22}; }),
            "a gather of 23 elements whose rank offsets do not ascend from 0 "
            "to that");
  EXPECT_EQ(
      rejection([&](Plan &p) { gather(p).rankOffsets = {0, 4, 8, 23}; }),
      "a gather has 4 rank offsets, expected 3 in a plan for a group of 2");
  EXPECT_EQ(rejection([&](Plan &p) { gather(p).rankOffsets.clear(); }),
            "an exchange with 0 rank offsets, expected them at the start of a "
            "gather only");
  EXPECT_EQ(rejection([](Plan &p) { p.records.erase(p.records.begin() + 4); }),
            "the step starts exchanges, but does not join them");
  EXPECT_EQ(rejection([](Plan &p) {
              std::swap(p.records[JoinSums], p.records[Update + 1]);
            }),
            "exchanges of the step are out of order");
  EXPECT_EQ(
      rejection([](Plan &p) {
        Copy copy{{MW, 8, {1}, {}}, {W, 0, {1}, {}}, {4}};
        p.records.push_back({"copy", copy});
      }),
      "source is in buffer 'm/w', a shard of a tensor, which only launches "
      "access");
}
