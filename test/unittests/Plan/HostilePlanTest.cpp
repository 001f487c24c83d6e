//===- HostilePlanTest.cpp - Rejection of invalid plans -------------------===//

#include "SamplePlan.h"
#include "binade/Plan/PlanJson.h"
#include "gtest/gtest.h"

using namespace binade;
using namespace binade::plan;

/// Returns the error for the sample plan after `change`, without "error".
template <typename Change> static std::string rejection(Change change) {
  Plan plan = samplePlan();
  change(plan);
  Result<void> valid = validate(plan, "p");
  if (valid)
    return "accepted";
  return valid.error().part + ": " + valid.error().message;
}

static Matmul &matmulOf(Plan &plan) {
  return std::get<Matmul>(std::get<Loop>(plan.records[0].body).body[0].body);
}
static Launch &launchOf(Plan &plan) {
  return std::get<Launch>(plan.records[1].body);
}
static Convolution &convolutionOf(Plan &plan) {
  return std::get<Convolution>(plan.records[2].body);
}
static Copy &copyOf(Plan &plan) { return std::get<Copy>(plan.records[3].body); }

static Attention &attentionOf(Plan &plan) {
  return std::get<Attention>(plan.records[4].body);
}
static Attention::Gradients &gradientsOf(Plan &plan) {
  return *std::get<Attention>(plan.records[5].body).gradients;
}

TEST(HostilePlan, TheSampleIsValid) {
  EXPECT_EQ(rejection([](Plan &) {}), "accepted");
}

TEST(HostilePlan, BuffersOutsideTheArenaAreRejected) {
  EXPECT_EQ(rejection([](Plan &p) { p.buffers[8].offset = 676; }),
            "buffer 8 'feature': offset 676 and 96 bytes leave the arena of "
            "768");
  EXPECT_EQ(rejection([](Plan &p) { p.buffers[8].offset = UINT64_MAX - 3; }),
            "buffer 8 'feature': offset 18446744073709551612 and 96 bytes "
            "leave the arena of 768");
  EXPECT_EQ(rejection([](Plan &p) { p.buffers[0].offset = 2; }),
            "buffer 0 'w': offset 2 is not a multiple of the element size");
  EXPECT_EQ(rejection([](Plan &p) { p.buffers[0].shape = {4, 4}; }),
            "buffer 0 'w': 48 bytes for a shape of 64");
  EXPECT_EQ(rejection([](Plan &p) {
              p.buffers[0].shape = {std::int64_t(1) << 62, 4};
            }),
            "buffer 0 'w': negative or overflowing shape");
  EXPECT_EQ(rejection([](Plan &p) { p.buffers[0].shape = {-4, -3}; }),
            "buffer 0 'w': negative or overflowing shape");
}

TEST(HostilePlan, TheLedgerMustSumToTheArena) {
  EXPECT_EQ(rejection([](Plan &p) { p.ledger[Category::Batch] = 1; }),
            ": the ledger sums to 769 bytes, the arena has 768");
  EXPECT_EQ(rejection([](Plan &p) { p.ledger[Category::Batch] = UINT64_MAX; }),
            ": the ledger overflows");
}

TEST(HostilePlan, PortsMustBeUniqueAndDisjoint) {
  EXPECT_EQ(rejection([](Plan &p) { p.ports[0].buffer = 9; }),
            "parameter 'w': buffer 9 of 9");
  EXPECT_EQ(rejection([](Plan &p) { p.ports[1].name = "w"; }),
            "parameter 'w': two ports of this role and name");
  EXPECT_EQ(rejection([](Plan &p) {
              p.ports[1] = {Role::Parameter, "scaler/growth", 7, {}, {}};
              p.ports.push_back({Role::Scaler, "growth", 4, {}, {}});
            }),
            "scaler 'growth': two tensors of training state would be saved "
            "under the name 'scaler/growth'");
  EXPECT_EQ(rejection([](Plan &p) { p.buffers[7].offset = 32; }),
            "parameter 'kernel': overlaps parameter 'w'");
  EXPECT_EQ(rejection([](Plan &p) { p.ports[4].buffer = 4; }),
            "hyper 'lr': expected one F64, found 1 F32");
  EXPECT_EQ(rejection([](Plan &p) { p.ports[2].check = IndexCheck{0, 3, {}}; }),
            "batch 'x': only a batch input of I64 or I32 has a range");
  EXPECT_EQ(rejection([](Plan &p) { p.ports[3].check->high = 0; }),
            "batch 'labels': empty range [0, 0)");
  EXPECT_EQ(rejection([](Plan &p) { p.ports[2].range = NumberRange{}; }),
            "batch 'x': only a hyper-parameter has a range of numbers");
  EXPECT_EQ(rejection([](Plan &p) { p.ports[4].range->max = 1e-4; }),
            "hyper 'lr': its initial value must be at most 1e-04, got 0.001");
  EXPECT_EQ(rejection([](Plan &p) {
              std::get<ExternalInit>(p.ports[0].init).bytes = 44;
            }),
            "parameter 'w': external data of 44 bytes in file 'w.safetensors' "
            "for 48");
  EXPECT_EQ(rejection([](Plan &p) { p.ports[4].init = FillInit{1.0 / 0.0}; }),
            "hyper 'lr': its initial value must be finite, got inf");
}

TEST(HostilePlan, ViewsOutsideTheirBufferInAnyIterationAreRejected) {
  const std::string row = "record 0.0 'row': ";
  EXPECT_EQ(rejection([](Plan &p) { matmulOf(p).lhs.buffer = 9; }),
            row + "lhs is in buffer 9 of 9");
  EXPECT_EQ(rejection([](Plan &p) { matmulOf(p).k = 5; }),
            row + "lhs reaches element 16 of buffer 'x', which has 16");
  EXPECT_EQ(rejection([](Plan &p) { matmulOf(p).lhs.steps = {5}; }),
            row + "lhs reaches element 18 of buffer 'x', which has 16");
  EXPECT_EQ(
      rejection([](Plan &p) { std::get<Loop>(p.records[0].body).count = 5; }),
      row + "lhs reaches element 19 of buffer 'x', which has 16");
  std::string illegal = "lhs has a negative or overflowing offset, stride or "
                        "step, or more steps than loops";
  EXPECT_EQ(rejection([](Plan &p) { matmulOf(p).lhs.offset = -1; }),
            row + illegal);
  EXPECT_EQ(rejection([](Plan &p) { matmulOf(p).lhs.strides[0] = -4; }),
            row + illegal);
  EXPECT_EQ(rejection([](Plan &p) { matmulOf(p).lhs.steps = {1, 1}; }),
            row + illegal);
  EXPECT_EQ(rejection([](Plan &p) { matmulOf(p).lhs.strides[1] = INT64_MAX; }),
            row + illegal);
  EXPECT_EQ(rejection([](Plan &p) { matmulOf(p).m = 0; }),
            row + "lhs has an axis of less than one element");
  EXPECT_EQ(rejection([](Plan &p) { matmulOf(p).out.strides[1] = 0; }),
            row + "out writes one element 3 times along axis 1");
  EXPECT_EQ(rejection([](Plan &p) {
              matmulOf(p).lhs.strides = {0, 0};
              matmulOf(p).k = std::int64_t(1) << 48;
            }),
            row + "negative or overflowing sizes");
  EXPECT_EQ(rejection([](Plan &p) { matmulOf(p).rhs.strides = {1}; }),
            row + "rhs has 1 strides for 2 axes");
  EXPECT_EQ(rejection([](Plan &p) { matmulOf(p).out.buffer = 3; }),
            row + "out reaches element 11 of buffer 'labels', which has 4");
  EXPECT_EQ(rejection([](Plan &p) { p.buffers[1].dtype = DType::I32; }),
            row + "operand of type I32, expected F32, BF16 or F16");
  EXPECT_EQ(
      rejection([](Plan &p) { matmulOf(p).lhsScale = View{4, 0, {}, {}}; }),
      row + "a scale of operands of type F32, expected F8_E4M3 or "
            "F8_E5M2");
  auto makeCodes = [](Plan &p, std::uint32_t buffer) {
    p.buffers[buffer].dtype = DType::F8_E4M3;
    p.buffers[buffer].bytes /= 4;
  };
  EXPECT_EQ(rejection([&](Plan &p) { makeCodes(p, 1); }),
            row + "a matmul of F8_E4M3 and F32, expected FP8 on both sides or "
                  "on none");
  auto scale = [&](Plan &p, std::uint32_t by) {
    makeCodes(p, 1);
    matmulOf(p).rhs.buffer = 1;
    matmulOf(p).lhsScale = View{by, 0, {}, {}};
  };
  EXPECT_EQ(rejection([&](Plan &p) { scale(p, 3); }),
            row + "a scale of type I64, expected F32");
  EXPECT_EQ(rejection([&](Plan &p) { scale(p, 9); }),
            row + "lhs_scale is in buffer 9 of 9");
  // The matmul has 1 row, 3 columns and 4 terms.
  auto blocks = [&](Plan &p, ScaleBlock block) {
    makeCodes(p, 1);
    matmulOf(p).rhs.buffer = 1;
    matmulOf(p).block = block;
    matmulOf(p).lhsScale = View{2, 0, {1, 1}, {}};
    matmulOf(p).rhsScale = View{2, 0, {4, 1}, {}};
  };
  EXPECT_EQ(rejection([&](Plan &p) { blocks(p, {1, 1, 2}); }), "accepted");
  EXPECT_EQ(rejection([&](Plan &p) { blocks(p, {1, 0, 2}); }),
            row + "a block size of 1, 0 and 2");
  EXPECT_EQ(rejection([&](Plan &p) {
              blocks(p, {1, 1, 2});
              matmulOf(p).lhsScale.reset();
            }),
            row + "block scales, expected scales of both sides and no batch "
                  "axes");
  EXPECT_EQ(rejection([&](Plan &p) {
              blocks(p, {1, 1, 2});
              matmulOf(p).rhsScale->strides = {8, 1};
            }),
            row + "rhs_scale reaches element 17 of buffer 'y', which has 12");
  EXPECT_EQ(rejection([&](Plan &p) {
              blocks(p, {1, 1, 2});
              matmulOf(p).lhsScale->strides = {1};
            }),
            row + "lhs_scale has 1 strides for 2 axes");
  EXPECT_EQ(rejection([&](Plan &p) {
              blocks(p, {1, 1, 2});
              matmulOf(p).lhsScale->buffer = 3;
            }),
            row + "a scale of type I64, expected F32");
  auto accumulate = [&](Plan &p, Accumulation accumulation) {
    blocks(p, {1, 1, 2});
    matmulOf(p).accumulation = accumulation;
  };
  EXPECT_EQ(rejection([&](Plan &p) { accumulate(p, {14, 32, 128}); }),
            "accepted");
  for (auto [bits, step, promote] : {std::array<std::int64_t, 3>{7, 32, 0},
                                     {25, 32, 0},
                                     {14, 0, 0},
                                     {14, 33, 0},
                                     {14, 32, 48},
                                     {14, 32, -32}})
    EXPECT_EQ(rejection([&](Plan &p) { accumulate(p, {bits, step, promote}); }),
              row + "an accumulator of " + std::to_string(bits) +
                  " bits, steps of " + std::to_string(step) + " and " +
                  std::to_string(promote) + " products");
  const std::string scaled =
      row + "an accumulator, expected scales of both sides, a result that is "
            "not added to, and a CPU";
  EXPECT_EQ(rejection([&](Plan &p) {
              accumulate(p, {14, 32, 0});
              matmulOf(p).accumulate = true;
            }),
            scaled);
  EXPECT_EQ(rejection([&](Plan &p) { matmulOf(p).accumulation.emplace(); }),
            scaled);
}

TEST(HostilePlan, SlotsOfAParallelLoopMustBeDisjointAndInTheirBuffers) {
  auto loopOf = [](Plan &p) -> Loop & {
    return std::get<Loop>(p.records[0].body);
  };
  const std::string rows = "record 0 'rows': ", row = "record 0.0 'row': ";
  EXPECT_EQ(rejection([&](Plan &p) { loopOf(p).slots = 2; }), "accepted");
  EXPECT_EQ(rejection([&](Plan &p) { loopOf(p).slots = -1; }),
            rows + "a loop with -1 slots");
  EXPECT_EQ(rejection([&](Plan &p) { loopOf(p).slots = 5000; }),
            rows + "a loop with 5000 slots");
  EXPECT_EQ(rejection([&](Plan &p) {
              loopOf(p).slots = 2;
              Loop inner{1, loopOf(p).body, 2};
              loopOf(p).body = {{"inner", inner}};
            }),
            "record 0.0 'inner': a parallel loop inside of another");
  auto give = [&](Plan &p, std::uint64_t slot) {
    loopOf(p).slots = 3;
    matmulOf(p).out.steps = {};
    Buffer &out = p.buffers[matmulOf(p).out.buffer];
    out.slot = slot;
    p.ledger[Category::Workspace] += 2 * out.bytes;
    p.arenaBytes += 2 * out.bytes;
    out.offset = p.arenaBytes - 3 * out.bytes;
  };
  Plan sample = samplePlan();
  std::uint64_t bytes = sample.buffers[matmulOf(sample).out.buffer].bytes;
  EXPECT_EQ(rejection([&](Plan &p) { give(p, bytes); }), "accepted");
  EXPECT_EQ(rejection([&](Plan &p) { give(p, bytes + 4); }),
            row + "out is in buffer 'y', whose slot 3 leaves the arena of 864");
  EXPECT_EQ(rejection([&](Plan &p) { give(p, bytes - 4); }),
            "buffer 2 'y': a slot of 44 bytes for 48");
  EXPECT_EQ(rejection([&](Plan &p) {
              loopOf(p).slots = 2;
              matmulOf(p).out.steps = {};
            }),
            row + "out has elements that several iterations of a parallel loop "
                  "write");
}

TEST(HostilePlan, IterationsOfAParallelLoopMustWriteDisjointElements) {
  // Copies a tensor of `sizes` to 'y', which has 12 elements, with `strides`,
  // in `count` iterations of a parallel loop and `inner` ones of a loop within
  // it.
  auto copyTo = [](std::vector<std::int64_t> strides,
                   std::vector<std::int64_t> sizes, std::int64_t count,
                   std::int64_t inner, std::vector<std::int64_t> steps) {
    return rejection([&](Plan &p) {
      Copy copy{{0, 0, std::vector<std::int64_t>(sizes.size(), 0), {}},
                {2, 0, strides, steps},
                sizes};
      p.records[0] = {
          "rows", Loop{count, {{"inner", Loop{inner, {{"copy", copy}}}}}, 2}};
    });
  };
  const std::string wrong =
      "record 0.0.0 'copy': destination has elements that "
      "several iterations of a parallel loop write";
  // Contiguous pieces.
  EXPECT_EQ(copyTo({1}, {3}, 4, 1, {3}), "accepted");
  EXPECT_EQ(copyTo({1}, {3}, 4, 1, {2}), wrong);
  EXPECT_EQ(copyTo({1}, {3}, 1, 1, {0}), "accepted");
  // Adjacent columns.
  EXPECT_EQ(copyTo({4}, {3}, 4, 1, {1}), "accepted");
  EXPECT_EQ(copyTo({3}, {3}, 4, 1, {1}), wrong);
  EXPECT_EQ(copyTo({4, 1}, {3, 2}, 2, 1, {2}), "accepted");
  EXPECT_EQ(copyTo({4, 1}, {3, 2}, 3, 1, {1}), wrong);
  // Iterations of the inner loop may overlap each other.
  EXPECT_EQ(copyTo({1}, {2}, 3, 2, {4, 2}), "accepted");
  EXPECT_EQ(copyTo({1}, {2}, 3, 2, {4, 0}), "accepted");
  EXPECT_EQ(copyTo({1}, {2}, 3, 2, {2, 4}), wrong);
  EXPECT_EQ(copyTo({1}, {2}, 3, 2, {2, 6}), "accepted");
  EXPECT_EQ(copyTo({1}, {2}, 3, 2, {2, 2}), wrong);

  // The result of a convolution is dense.
  auto convolve = [](std::int64_t step) {
    return rejection([&](Plan &p) {
      p.buffers[8].offset = 768;
      p.buffers[8].bytes *= 2;
      p.buffers[8].shape.front() = 2;
      p.arenaBytes += 192;
      p.ledger[Category::Saved] += 192;
      convolutionOf(p).y.steps = {step};
      p.records[2] = {"rows", Loop{2, {p.records[2]}, 2}};
    });
  };
  EXPECT_EQ(convolve(24), "accepted");
  EXPECT_EQ(convolve(23), "record 2.0 'conv': the result has elements that "
                          "several iterations of a parallel loop write");
}

TEST(HostilePlan, RecordsOfAParallelLoopMustWriteDisjointElements) {
  // Two copies to 'y', which has 12 elements, in `count` iterations.
  auto copyTwice = [](View first, View second, std::int64_t size,
                      std::int64_t count) {
    return rejection([&](Plan &p) {
      View from{0, 0, {0}, {}};
      p.records[0] = {"rows", Loop{count,
                                   {{"one", Copy{from, first, {size}}},
                                    {"two", Copy{from, second, {size}}}},
                                   2}};
    });
  };
  const std::string wrong =
      "record 0.1 'two': may write in one iteration of a parallel loop what "
      "record 0.0 'one' writes in another";
  // The second copy writes what the first one writes an iteration later.
  EXPECT_EQ(copyTwice({2, 0, {1}, {3}}, {2, 3, {1}, {3}}, 3, 3), wrong);
  EXPECT_EQ(copyTwice({2, 0, {1}, {3}}, {2, 9, {1}, {0}}, 3, 1), "accepted");
  // Two halves of a piece, then the same piece twice.
  EXPECT_EQ(copyTwice({2, 0, {1}, {4}}, {2, 2, {1}, {4}}, 2, 3), "accepted");
  EXPECT_EQ(copyTwice({2, 0, {1}, {4}}, {2, 3, {1}, {4}}, 2, 2), wrong);
  EXPECT_EQ(copyTwice({2, 0, {1}, {4}}, {2, 0, {1}, {4}}, 4, 3), "accepted");
  EXPECT_EQ(copyTwice({2, 0, {4}, {1}}, {2, 0, {4}, {1}}, 3, 4), "accepted");
  // The copies advance by different steps.
  EXPECT_EQ(copyTwice({2, 0, {1}, {2}}, {2, 0, {1}, {3}}, 2, 3), wrong);
  // The copies write different parts of the buffer.
  EXPECT_EQ(copyTwice({2, 0, {1}, {2}}, {2, 6, {1}, {3}}, 2, 2), "accepted");
}

TEST(HostilePlan, EvaluationsAreChecked) {
  EXPECT_EQ(rejection([](Plan &p) {
              auto &launch = std::get<Launch>(p.evaluation[0].body);
              launch.segments[0].operands[1].buffer = 9;
            }),
            "evaluation record 0 'mean': operand 1 is in buffer 9 of 9");
  EXPECT_EQ(rejection([](Plan &p) { p.ports[6].name = "loss2"; }),
            ": an evaluation without a metric 'eval_loss'");
  EXPECT_EQ(rejection([](Plan &p) { p.ports[6].buffer = 5; }),
            "metric 'eval_loss': expected one F32, found 1 F64");
}

TEST(HostilePlan, AccumulationsAreChecked) {
  EXPECT_EQ(rejection([](Plan &p) {
              auto &launch = std::get<Launch>(p.accumulation[0].body);
              launch.segments[0].operands[1].buffer = 9;
            }),
            "accumulation record 0 'mean': operand 1 is in buffer 9 of 9");
  EXPECT_EQ(rejection([](Plan &p) { p.batches = 1; }),
            ": 1 batches per step and 1 records to accumulate them");
  EXPECT_EQ(rejection([](Plan &p) { p.batches = 0; }),
            ": 0 batches per step and 1 records to accumulate them");
  EXPECT_EQ(rejection([](Plan &p) { p.accumulation.clear(); }),
            ": 3 batches per step and 0 records to accumulate them");
  EXPECT_EQ(rejection([](Plan &p) { p.ports[7].name = "loss2"; }),
            ": an accumulation without a metric 'batch_loss'");
  EXPECT_EQ(rejection([](Plan &p) {
              p.ports.push_back({Role::Accumulator, "w", 0, {}, {}});
            }),
            "accumulator 'w': overlaps parameter 'w'");
}

TEST(HostilePlan, LaunchesAreChecked) {
  const std::string mean = "record 1 'mean': ";
  EXPECT_EQ(rejection([](Plan &p) { launchOf(p).kernel = "a b"; }),
            mean + "kernel name 'a b'");
  EXPECT_EQ(rejection([](Plan &p) { launchOf(p).segments[0].kernel = "-"; }),
            mean + "kernel name '-'");
  EXPECT_EQ(rejection([](Plan &p) { launchOf(p).grain = 0; }),
            mean + "1 segments in blocks of 0");
  EXPECT_EQ(rejection([](Plan &p) { launchOf(p).segments[0].extent = -1; }),
            mean + "a segment of -1 items");
  EXPECT_EQ(rejection([](Plan &p) {
              launchOf(p).segments[0].operands[0].offset = 12;
            }),
            mean + "operand 0 reaches element 12 of buffer 'y', which has 12");
  EXPECT_EQ(rejection([](Plan &p) {
              launchOf(p).segments.push_back({"", {{2, 0, {}, {}}}, 4});
            }),
            mean + "segments of one kernel differ in their number of operands");
  EXPECT_EQ(rejection([](Plan &p) { launchOf(p).finish = false; }),
            mean + "finish operands without a finish");
}

TEST(HostilePlan, ConvolutionsAreChecked) {
  const std::string conv = "record 2 'conv': ";
  EXPECT_EQ(rejection([](Plan &p) { convolutionOf(p).output[1] = 5; }),
            conv + "axis 1 of the output has 5 elements, which does not follow "
                   "from the geometry");
  EXPECT_EQ(rejection([](Plan &p) { convolutionOf(p).kernel[1] = 7; }),
            conv + "axis 1 of the output has 4 elements, which does not follow "
                   "from the geometry");
  EXPECT_EQ(rejection([](Plan &p) { convolutionOf(p).strides[0] = 0; }),
            conv + "geometry of axis 0");
  EXPECT_EQ(rejection([](Plan &p) { convolutionOf(p).groups = 3; }),
            conv + "batch 1, channels 2 and 2 in 3 groups");
  EXPECT_EQ(rejection([](Plan &p) { convolutionOf(p).input = {}; }),
            conv + "0 spatial axes");
  EXPECT_EQ(rejection([](Plan &p) { convolutionOf(p).batch = 2; }),
            conv + "x reaches element 71 of buffer 'image', which has 36");
  EXPECT_EQ(
      rejection([](Plan &p) { convolutionOf(p).bias = View{0, 11, {}, {}}; }),
      conv + "bias reaches element 12 of buffer 'w', which has 12");
}

TEST(HostilePlan, AttentionIsChecked) {
  const std::string attention = "record 4 'attention': ",
                    gradients = "record 5 'gradients': ";
  EXPECT_EQ(rejection([](Plan &p) { attentionOf(p).keys = 3; }),
            attention + "causal attention of 4 queries and 3 keys");
  EXPECT_EQ(rejection([](Plan &p) { attentionOf(p).batch = {2}; }),
            attention + "query has 2 strides for 3 axes");
  EXPECT_EQ(rejection([](Plan &p) { attentionOf(p).batch = {1, 1, 1, 1, 1}; }),
            attention + "5 batch axes");
  EXPECT_EQ(rejection([](Plan &p) { attentionOf(p).depth = 0; }),
            attention + "query has an axis of less than one element");
  EXPECT_EQ(rejection([](Plan &p) { attentionOf(p).depth = 30; }),
            attention +
                "query reaches element 41 of buffer 'image', which has 36");
  EXPECT_EQ(rejection([](Plan &p) {
              attentionOf(p).causal = false;
              attentionOf(p).queries = std::int64_t(1) << 62;
            }),
            attention + "negative or overflowing sizes");
  EXPECT_EQ(rejection([](Plan &p) { attentionOf(p).y.strides = {0, 1}; }),
            attention + "y writes one element 4 times along axis 0");
  EXPECT_EQ(rejection([](Plan &p) { attentionOf(p).key.strides = {1, 4}; }),
            attention +
                "key has columns that are 4 elements apart, expected 1");
  EXPECT_EQ(rejection([](Plan &p) { attentionOf(p).lse.buffer = 3; }),
            attention + "lse of type I64, expected F32");
  EXPECT_EQ(rejection([](Plan &p) {
              p.buffers[8].dtype = DType::BF16;
              p.buffers[8].shape = {48};
            }),
            gradients + "dy of type BF16, expected F32");
  EXPECT_EQ(rejection([](Plan &p) { gradientsOf(p).dquery.buffer = 9; }),
            gradients + "dquery is in buffer 9 of 9");
  EXPECT_EQ(rejection([](Plan &p) { gradientsOf(p).dvalue.offset = 11; }),
            gradients +
                "dvalue reaches element 36 of buffer 'image', which has 36");
}

TEST(HostilePlan, CopiesAreChecked) {
  const std::string copy = "record 3 'transpose': ";
  EXPECT_EQ(rejection([](Plan &p) { copyOf(p).to.buffer = 3; }),
            copy + "destination reaches element 11 of buffer 'labels', which "
                   "has 4");
  EXPECT_EQ(rejection([](Plan &p) { copyOf(p).sizes = {3}; }),
            copy + "source has 2 strides for 1 axes");
  EXPECT_EQ(rejection([](Plan &p) {
              p.buffers[0].dtype = DType::I32;
              p.ports.clear();
              p.evaluation.clear();
              p.accumulation.clear();
              p.batches = 1;
              p.records.erase(p.records.begin());
            }),
            "record 2 'transpose': a copy from I32 to F32");
}
