//===- ExecutorTest.cpp - Launches, loops and copies ----------------------===//

#include "KernelBundle.h"
#include "OneRecord.h"
#include <set>
#include <xmmintrin.h>

using namespace binade;
using namespace binade::plan;

/// Loads a program with the kernels of Kernels.c.
static Program load(Tensors &tensors, unsigned threads = 2) {
  tensors.plan.ledger = {{Category::Workspace, tensors.plan.arenaBytes}};
  return loadWithKernels(tensors.plan, threads);
}

static View at(std::uint32_t buffer, std::int64_t offset = 0,
               std::vector<std::int64_t> steps = {}) {
  return {buffer, offset, {}, std::move(steps)};
}

TEST(Executor, EveryItemOfEverySegmentRunsOnce) {
  Tensors tensors;
  std::uint32_t values = tensors.add(DType::F32, {3});
  std::uint32_t out = tensors.add(DType::F32, {3, 100});
  Launch launch;
  launch.kernel = "number";
  launch.grain = 7;
  for (std::int64_t s = 0; s < 3; ++s)
    launch.segments.push_back(
        {"", {at(values, s), at(out, 100 * s)}, s == 1 ? 1 : 100});
  tensors.plan.records = {{"number", launch}};
  for (unsigned threads : {1u, 2u, 4u}) {
    Program program = load(tensors, threads);
    for (int s = 0; s < 3; ++s)
      tensorOf(program, values).as<float>()[s] = static_cast<float>(s + 1);
    ASSERT_TRUE(program.run());
    std::span<float> got = tensorOf(program, out).as<float>();
    for (std::size_t s = 0; s < 3; ++s)
      for (std::size_t i = 0; i < 100; ++i)
        ASSERT_EQ(got[100 * s + i],
                  s == 1 && i > 0 ? 0.0f
                                  : static_cast<float>(1000 * (s + 1) + i))
            << "segment " << s << " item " << i;
  }
}

TEST(Executor, BlocksHaveTheGrainSizeAndDoNotCrossSegments) {
  Tensors tensors;
  std::uint32_t out = tensors.add(DType::I64, {15});
  Launch launch;
  launch.kernel = "width";
  launch.grain = 4;
  launch.segments = {{"", {at(out)}, 10}, {"", {at(out, 10)}, 5}};
  tensors.plan.records = {{"width", launch}};
  Program program = load(tensors);
  ASSERT_TRUE(program.run());
  std::span<std::int64_t> got = tensorOf(program, out).as<std::int64_t>();
  EXPECT_EQ(
      std::vector<std::int64_t>(got.begin(), got.end()),
      (std::vector<std::int64_t>{4, 4, 4, 4, 4, 4, 4, 4, 2, 2, 4, 4, 4, 4, 1}));
}

/// Runs a launch of `items` items of 8 bytes on two threads, up to `runs` times
/// until both take part. Returns the thread pointers that were seen.
static std::set<std::int64_t> findThreads(std::int64_t items, int runs) {
  Tensors tensors;
  std::uint32_t out = tensors.add(DType::I64, {items});
  Launch launch;
  launch.kernel = "thread";
  launch.grain = items / 16;
  launch.segments = {{"", {at(out)}, items}};
  tensors.plan.records = {{"thread", launch}};
  Program program = load(tensors);
  std::set<std::int64_t> seen;
  for (int i = 0; i < runs && seen.size() < 2; ++i) {
    EXPECT_TRUE(program.run());
    std::span<std::int64_t> pointers =
        tensorOf(program, out).as<std::int64_t>();
    seen.insert(pointers.begin(), pointers.end());
  }
  return seen;
}

TEST(Executor, ASmallLaunchRunsOnTheCallingThread) {
  std::int64_t own;
  __asm__ volatile("mov %%fs:0, %0" : "=r"(own));
  EXPECT_EQ(findThreads(1 << 13, 200), std::set<std::int64_t>{own});
  EXPECT_EQ(findThreads(1 << 20, 1000).size(), 2u);
}

TEST(Executor, TheFinishReadsAllPartialResults) {
  Tensors tensors;
  std::uint32_t rows = tensors.add(DType::F32, {50, 4});
  std::uint32_t partials = tensors.add(DType::F32, {50});
  std::uint32_t total = tensors.add(DType::F32, {});
  Launch launch;
  launch.kernel = "sum";
  launch.segments = {{"", {at(rows), at(partials)}, 20},
                     {"", {at(rows, 80), at(partials, 20)}, 30}};
  launch.finish = true;
  launch.finishOperands = {at(partials), at(total)};
  tensors.plan.records = {{"sum", launch}};
  Program program = load(tensors);
  for (int i = 0; i < 200; ++i)
    tensorOf(program, rows).as<float>()[i] = static_cast<float>(i);
  ASSERT_TRUE(program.run());
  EXPECT_EQ(tensorOf(program, total).as<float>()[0], 199 * 100);
}

TEST(Executor, SegmentsMayHaveDifferentKernels) {
  Tensors tensors;
  std::uint32_t out = tensors.add(DType::I64, {8});
  std::uint32_t answer = tensors.add(DType::F32, {});
  Launch launch;
  launch.kernel = "width";
  launch.grain = 8;
  launch.segments = {{"", {at(out)}, 8}, {"answer", {at(answer)}, 1}};
  tensors.plan.records = {{"both", launch}};
  Program program = load(tensors);
  ASSERT_TRUE(program.run());
  EXPECT_EQ(tensorOf(program, out).as<std::int64_t>()[7], 8);
  EXPECT_EQ(tensorOf(program, answer).as<float>()[0], 42);
}

TEST(Executor, LoopsAdvanceViews) {
  Tensors tensors;
  std::uint32_t values = tensors.add(DType::F32, {2});
  std::uint32_t out = tensors.add(DType::F32, {2, 3, 5});
  Launch launch;
  launch.kernel = "number";
  launch.segments = {{"", {at(values, 0, {1}), at(out, 0, {15, 5})}, 5}};
  Loop inner{3, {{"number", launch}}};
  tensors.plan.records = {{"outer", Loop{2, {{"inner", inner}}}}};
  Program program = load(tensors);
  tensorOf(program, values).as<float>()[0] = 1;
  tensorOf(program, values).as<float>()[1] = 2;
  ASSERT_TRUE(program.run());
  std::span<float> got = tensorOf(program, out).as<float>();
  for (std::size_t i = 0; i < 30; ++i)
    EXPECT_EQ(got[i], static_cast<float>(1000 * (i / 15 + 1) + i % 5)) << i;
}

// Each iteration writes its values into the slot of its thread. Without slots,
// 200 iterations on two threads would read each other's values.
TEST(Executor, IterationsOfAParallelLoopUseTheirSlots) {
  constexpr std::int64_t count = 200, width = 1000;
  for (std::int64_t slots : {1, 2, 5}) {
    Tensors tensors;
    std::uint32_t values = tensors.add(DType::F32, {count});
    std::uint32_t own = tensors.add(DType::F32, {slots, width});
    std::uint32_t out = tensors.add(DType::F32, {count, width});
    std::uint32_t zero = tensors.add(DType::F32, {});
    tensors.plan.buffers[own].shape = {width};
    tensors.plan.buffers[own].bytes = width * sizeof(float);
    tensors.plan.buffers[own].slot = width * sizeof(float);
    View mine = at(own);
    Launch launch;
    launch.kernel = "number";
    launch.segments = {{"", {at(values, 0, {1}), mine}, width}};
    mine.strides = {1};
    Copy clear, copy; // `clear` is needed because the kernel accumulates.
    clear.from = {zero, 0, {0}, {}};
    clear.to = mine;
    copy.from = mine;
    copy.to = {out, 0, {1}, {width}};
    clear.sizes = copy.sizes = {width};
    Loop loop{
        count, {{"clear", clear}, {"number", launch}, {"copy", copy}}, slots};
    tensors.plan.records = {{"loop", loop}};
    Program program = load(tensors, 2);
    for (std::int64_t n = 0; n < count; ++n)
      tensorOf(program, values).as<float>()[n] = static_cast<float>(n);
    ASSERT_TRUE(program.run());
    std::span<float> got = tensorOf(program, out).as<float>();
    for (std::int64_t n = 0; n < count; ++n)
      for (std::int64_t i = 0; i < width; ++i)
        ASSERT_EQ(got[n * width + i], static_cast<float>(1000 * n + i))
            << slots << " slots, iteration " << n;
  }
}

TEST(Executor, CopiesPermute) {
  // Permutes [2, 70, 3, 90] to axes 0, 3, 1, 2, in every element size.
  for (DType type : {DType::U8, DType::BF16, DType::F32, DType::F64}) {
    Tensors tensors;
    std::uint32_t from = tensors.add(type, {2, 70, 3, 90});
    std::uint32_t to = tensors.add(type, {2, 90, 70, 3});
    Copy copy;
    copy.from = {from, 0, {18900, 1, 270, 90}, {}};
    copy.to = {to, 0, {18900, 210, 3, 1}, {}};
    copy.sizes = {2, 90, 70, 3};
    tensors.plan.records = {{"permute", copy}};
    Program program = load(tensors);
    std::size_t size = byteSize(type);
    std::span<std::byte> in = tensorOf(program, from).bytes;
    std::span<std::byte> out = tensorOf(program, to).bytes;
    for (std::size_t i = 0; i < in.size(); ++i)
      in[i] = static_cast<std::byte>(i * 31 % 251);
    ASSERT_TRUE(program.run());
    std::size_t wrong = 0, index = 0;
    for (std::size_t a = 0; a < 2; ++a)
      for (std::size_t d = 0; d < 90; ++d)
        for (std::size_t b = 0; b < 70; ++b)
          for (std::size_t c = 0; c < 3; ++c, ++index) {
            std::size_t source = ((a * 70 + b) * 3 + c) * 90 + d;
            wrong += !std::equal(out.begin() + index * size,
                                 out.begin() + (index + 1) * size,
                                 in.begin() + source * size);
          }
    EXPECT_EQ(wrong, 0u) << name(type);
  }
}

TEST(Executor, DenseCopiesMergeAxes) {
  Tensors tensors;
  std::uint32_t from = tensors.add(DType::F32, {50, 1000});
  std::uint32_t to = tensors.add(DType::F32, {50, 1100});
  Copy copy{{from, 0, {1000, 100, 1}, {}},
            {to, 50, {1100, 100, 1}, {}},
            {50, 10, 100}};
  tensors.plan.records = {{"pad", copy}};
  Program program = load(tensors);
  fillFinely(program, from);
  ASSERT_TRUE(program.run());
  std::span<float> in = tensorOf(program, from).as<float>();
  std::span<float> out = tensorOf(program, to).as<float>();
  for (std::size_t i = 0; i < 50; ++i)
    for (std::size_t j = 0; j < 1100; ++j)
      ASSERT_EQ(out[1100 * i + j],
                j < 50 || j >= 1050 ? 0.0f : in[1000 * i + j - 50]);
}

TEST(Executor, EveryThreadKeepsSubnormals) {
  Tensors tensors;
  std::uint32_t control = tensors.add(DType::U32, {64});
  std::uint32_t product = tensors.add(DType::F32, {64});
  Launch launch;
  launch.kernel = "mode";
  launch.segments = {{"", {at(control), at(product)}, 64}};
  tensors.plan.records = {{"mode", launch}};
  Program program = load(tensors, 4);
  // The host flushes to zero and rounds down, and keeps its mode.
  unsigned host = _mm_getcsr();
  unsigned odd = 0x1f80 | 0x8040 | 0x2000;
  _mm_setcsr(odd);
  ASSERT_TRUE(program.run());
  EXPECT_EQ(_mm_getcsr() & ~0x3fu, odd);
  _mm_setcsr(host);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(tensorOf(program, control).as<std::uint32_t>()[i], 0x1f80u);
    EXPECT_EQ(tensorOf(program, product).as<float>()[i], 0x1.16c2p-133f);
  }
}

TEST(Executor, PoisonDoesNotOverwriteTrainingState) {
  Tensors tensors;
  std::uint32_t kept = tensors.add(DType::F32, {4});
  std::uint32_t lost = tensors.add(DType::F32, {4});
  std::uint32_t hyper = tensors.add(DType::F64, {});
  tensors.plan.ports[kept].role = Role::Parameter;
  tensors.plan.ports[lost].role = Role::Output;
  tensors.plan.ports[hyper].role = Role::Hyper;
  tensors.plan.ledger = {{Category::Workspace, tensors.plan.arenaBytes}};
  Bundle bundle;
  bundle.plan = tensors.plan;
  LoadOptions options;
  options.poison = true;
  Result<Program> program =
      Program::load(std::move(bundle), "test", "", options);
  ASSERT_TRUE(program);
  ASSERT_TRUE(program->run());
  EXPECT_EQ(program->find(Role::Parameter, "t0")->as<float>()[3], 0);
  EXPECT_EQ(program->find(Role::Hyper, "t2")->as<double>()[0], 0);
  EXPECT_TRUE(std::isnan(program->find(Role::Output, "t1")->as<float>()[0]));
}
