//===- LibraryAttentionTest.cpp - Lowering of attention to cuDNN ----------===//

#include "../../../lib/Runtime/Cuda/LibraryAttention.h"
#include "SimulatedDevice.h"

using namespace binade;
using namespace binade::cuda;
using testing::ElementsAre;
using testing::HasSubstr;
using Which = AttentionOperand::Which;

namespace {
struct LibraryAttentionTest : SimulatedDevice {
  void SetUp() override { reopen(""); }
  void TearDown() override { setup.cudnn.reset(); }

  void reopen(const char *settings) {
    setup.cudnn.reset();
    device.reset();
    open(settings);
    auto opened = Cudnn::open(*device);
    ASSERT_TRUE(opened) << render(opened.error());
    setup.device = device.get();
    setup.cudnn = *std::move(opened);
    setup.where = "step.bnd";
  }

  /// Adds a buffer, and returns a view of it with `strides`.
  plan::View add(DType type, std::vector<std::int64_t> strides,
                 std::uint64_t offset = 0) {
    auto index = static_cast<std::uint32_t>(plan.buffers.size());
    plan.buffers.push_back({"t" + std::to_string(index),
                            offset,
                            1 << 20,
                            type,
                            {},
                            plan::Category::Workspace});
    return {index, 0, std::move(strides), {}};
  }

  /// Makes an attention whose query, key and value are columns of one matrix
  /// [batch, row, 3, head, column].
  plan::Attention make(std::vector<std::int64_t> batch, bool hasGradients,
                       std::int64_t rows = 128, DType type = DType::BF16) {
    constexpr std::int64_t kColumns = 64;
    plan::Attention a;
    a.batch = batch;
    a.queries = a.keys = rows;
    a.depth = a.width = kColumns;
    a.scale = 0.125;
    a.causal = true;
    std::int64_t heads = batch.back();
    auto stridesOf = [&](std::int64_t parts) {
      std::vector<std::int64_t> strides = {kColumns, parts * heads * kColumns,
                                           1};
      std::int64_t outer = rows * parts * heads * kColumns;
      for (std::size_t axis = batch.size() - 1; axis-- > 0;) {
        strides.insert(strides.begin(), outer);
        outer *= batch[axis];
      }
      return strides;
    };
    a.query = add(type, stridesOf(3));
    a.key = a.value = a.query;
    a.key.offset = heads * kColumns;
    a.value.offset = 2 * heads * kColumns;
    a.y = add(type, stridesOf(1));
    std::vector<std::int64_t> lse = {rows, 1};
    std::int64_t outer = rows * heads;
    for (std::size_t axis = batch.size() - 1; axis-- > 0;) {
      lse.insert(lse.begin(), outer);
      outer *= batch[axis];
    }
    a.lse = add(DType::F32, lse);
    if (hasGradients)
      a.gradients = {add(type, stridesOf(1)), add(type, stridesOf(1)),
                     add(type, stridesOf(1)), add(type, stridesOf(1))};
    return a;
  }

  Result<LibraryAttention> lower(const plan::Attention &attention) {
    setup.plan = &plan;
    setup.memory = {nullptr, plan.buffers};
    return toLibrary(attention, setup);
  }
  std::string refuse(const plan::Attention &attention) {
    auto made = lower(attention);
    if (made)
      return "";
    EXPECT_EQ(made.error().exitCode, ExitCode::Device);
    return render(made.error());
  }

  Plan plan;
  StreamSetup setup;
};
} // namespace

TEST_F(LibraryAttentionTest, ViewsBecomeStrides) {
  auto made = lower(make({4, 6}, true));
  ASSERT_TRUE(made) << render(made.error());
  const AttentionProblem &p = made->problem;
  EXPECT_EQ(p.batch, 4);
  EXPECT_EQ(p.heads, 6);
  EXPECT_EQ(p.groups, 6);
  EXPECT_EQ(p.queries, 128);
  EXPECT_EQ(p.depth, 64);
  EXPECT_EQ(p.scale, 0.125f);
  EXPECT_TRUE(p.causal && p.areGradients);
  EXPECT_EQ(p.strides[Which::Key],
            (HeadStrides{128 * 3 * 6 * 64, 64, 3 * 6 * 64}));
  EXPECT_EQ(p.strides[Which::Dvalue], (HeadStrides{128 * 6 * 64, 64, 6 * 64}));
  EXPECT_EQ(p.strides[Which::Lse], (HeadStrides{128 * 6, 128, 1}));
  EXPECT_TRUE(made->outer.empty());
}

TEST_F(LibraryAttentionTest, ContiguousAxesOfABatchAreMerged) {
  auto made = lower(make({2, 1, 3, 6}, false));
  ASSERT_TRUE(made) << render(made.error());
  EXPECT_EQ(made->problem.batch, 6);
  EXPECT_EQ(made->problem.heads, 6);
  EXPECT_TRUE(made->outer.empty());
}

TEST_F(LibraryAttentionTest, OtherAxesBecomeALoop) {
  plan::Attention a = make({2, 3, 6}, false);
  a.y.strides[0] *= 2;
  auto made = lower(a);
  ASSERT_TRUE(made) << render(made.error());
  EXPECT_EQ(made->problem.batch, 3);
  ASSERT_EQ(made->outer.size(), 1u);
  EXPECT_EQ(made->outer[0].size, 2);
  std::int64_t rows = 3 * 128 * 6;
  EXPECT_EQ(made->outer[0].bytes[Which::Query], rows * 3 * 64 * 2);
  EXPECT_EQ(made->outer[0].bytes[Which::Y], 2 * rows * 64 * 2);
  EXPECT_EQ(made->outer[0].bytes[Which::Lse], rows * 4);
}

/// Three heads of each of two groups; query and key are columns of different
/// matrices.
TEST_F(LibraryAttentionTest, GroupedHeadsAreOneAxis) {
  constexpr std::int64_t kRows = 128, kColumns = 64;
  plan::Attention a;
  a.batch = {4, 2, 3};
  a.grouped = true;
  a.queries = a.keys = kRows;
  a.depth = a.width = kColumns;
  auto stridesOf = [&](std::int64_t groups, std::int64_t heads) {
    return std::vector<std::int64_t>{kRows * groups * heads * kColumns,
                                     heads * kColumns, kColumns,
                                     groups * heads * kColumns, 1};
  };
  a.query = add(DType::BF16, stridesOf(2, 3));
  a.key = add(DType::BF16, stridesOf(2, 1));
  a.value = add(DType::BF16, stridesOf(2, 1));
  a.y = add(DType::BF16, stridesOf(2, 3));
  a.lse = add(DType::F32, {6 * kRows, 3 * kRows, kRows, 1});
  auto made = lower(a);
  ASSERT_TRUE(made) << render(made.error());
  const AttentionProblem &p = made->problem;
  EXPECT_EQ(p.batch, 4);
  EXPECT_EQ(p.heads, 6);
  EXPECT_EQ(p.groups, 2);
  EXPECT_TRUE(made->outer.empty());
  EXPECT_EQ(p.strides[Which::Query],
            (HeadStrides{kRows * 6 * kColumns, kColumns, 6 * kColumns}));
  EXPECT_EQ(p.strides[Which::Value],
            (HeadStrides{kRows * 2 * kColumns, kColumns, 2 * kColumns}));
  EXPECT_EQ(p.strides[Which::Lse], (HeadStrides{6 * kRows, kRows, 1}));

  // Groups of queries that are not contiguous become a batch.
  a.query.strides[1] *= 2;
  made = lower(a);
  ASSERT_TRUE(made) << render(made.error());
  EXPECT_EQ(made->problem.groups, 1);
  EXPECT_EQ(made->problem.heads, 3);
  EXPECT_EQ(made->problem.batch, 2);
  ASSERT_EQ(made->outer.size(), 1u);
  EXPECT_EQ(made->outer[0].size, 4);
  EXPECT_EQ(made->problem.strides[Which::Key].batch, kColumns);
  EXPECT_EQ(made->problem.strides[Which::Key].head, kRows * 2 * kColumns);
}

TEST_F(LibraryAttentionTest, OtherTypesAndAlignmentsAreRefused) {
  EXPECT_THAT(refuse(make({2, 2}, false, 128, DType::F32)),
              HasSubstr("cuDNN 9.24.0 supports no attention of F32"));
  plan::Attention a = make({2, 2}, false);
  a.y.buffer = add(DType::F32, {}).buffer;
  EXPECT_THAT(refuse(a), HasSubstr("of BF16 and F32"));
  a = make({2, 2}, false);
  a.depth = 60;
  EXPECT_THAT(refuse(a), HasSubstr("of 60 and 64 columns"));
  a = make({2, 2}, false);
  a.value.offset += 1;
  EXPECT_THAT(refuse(a), HasSubstr("with rows at addresses that are not "
                                   "multiples of 16"));
  a = make({2, 2}, false);
  a.value.strides[1] += 4;
  EXPECT_THAT(refuse(a), HasSubstr("with rows at addresses"));
}

TEST_F(LibraryAttentionTest, BrokenVersionsAreRefused) {
  for (auto [settings, isRefused] : {std::pair("cudnn=8907", true),
                                     {"cudnn=90000", false},
                                     {"cudnn=91000", true},
                                     {"cudnn=91001", true},
                                     {"cudnn=91002", false}}) {
    reopen(settings);
    EXPECT_EQ(refuse(make({2, 2}, false)) != "", isRefused) << settings;
  }
}

/// Up to version 9.15.0, gradients need whole blocks of 128 keys.
TEST_F(LibraryAttentionTest, GradientsOfIncompleteBlocksNeedANewVersion) {
  reopen("cudnn=91500");
  EXPECT_EQ(refuse(make({2, 2}, true, 256)), "");
  EXPECT_EQ(refuse(make({2, 2}, false, 200)), "");
  EXPECT_THAT(refuse(make({2, 2}, true, 200)),
              HasSubstr("with gradients for 200 keys, which is not a multiple "
                        "of 128"));
  reopen("cudnn=91501");
  EXPECT_EQ(refuse(make({2, 2}, true, 200)), "");
  EXPECT_THAT(refuse(make({2, 2}, true, 1)),
              HasSubstr("with gradients for one query and one key"));
}

/// Only Hopper has deterministic gradients.
TEST_F(LibraryAttentionTest, GradientsNeedHopper) {
  for (auto [settings, hasForward, hasGradients] :
       {std::tuple("capability=75", false, false),
        {"capability=80", true, false},
        {"capability=90", true, true},
        {"capability=100", true, false}}) {
    reopen(settings);
    EXPECT_EQ(refuse(make({2, 2}, false)) == "", hasForward) << settings;
    EXPECT_EQ(refuse(make({2, 2}, true)) == "", hasGradients) << settings;
  }
}
