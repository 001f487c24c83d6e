//===- ExchangePlanTest.cpp - Exchanges in plans --------------------------===//

#include "binade/Container/ExchangeLayout.h"
#include "binade/Plan/PlanJson.h"
#include "gtest/gtest.h"

using namespace binade;
using namespace binade::plan;

/// A step with two tensors, of 3 and 5 elements, that are a bucket.
static Plan exchangingPlan() {
  Plan p;
  p.arenaBytes = 512;
  p.ledger = {{Category::Gradient, 512}};
  p.buffers = {
      {"g", 64, 12, DType::F32, {3}, Category::Gradient},
      {"h", 128, 20, DType::F32, {5}, Category::Gradient},
      {"sums", 192, 256, DType::I32, {64}, Category::Gradient},
      {"rng", 0, 16, DType::I64, {2}, Category::Scalar},
      {"loss", 16, 4, DType::F32, {}, Category::Scalar},
  };
  p.ports = {
      {Role::Metric, "batch_loss", 4, {}, {}},
      {Role::Metric, "eval_loss", 4, {}, {}},
  };
  Exchange start;
  start.format = Exchange::Exact;
  start.tensors = {{0, 0, {}, {}}, {1, 0, {}, {}}};
  start.elements = {3, 5};
  start.sums = View{2, 0, {}, {}};
  Exchange join;
  join.action = Exchange::Join;
  join.bucket = 1;
  join.counter = View{3, 0, {}, {}};
  p.records = {{"start", start}, {"join", join}};
  Exchange add = start;
  add.action = Exchange::Add;
  p.accumulation = {{"add", add}};
  p.batches = 2;
  return p;
}

static Exchange &exchangeOf(Plan &plan, std::size_t record) {
  return std::get<Exchange>(plan.records[record].body);
}

template <typename Change> static std::string rejection(Change change) {
  Plan plan = exchangingPlan();
  change(plan);
  Result<void> valid = validate(plan, "p");
  return valid ? "accepted" : valid.error().message;
}

TEST(ExchangePlan, LayoutAlignsTensorsAndCountsBlocks) {
  std::vector<std::int64_t> elements = {3, 200, 1};
  ExchangeLayout layout(elements);
  EXPECT_EQ(layout.positions, (std::vector<std::int64_t>{0, 16, 224}));
  EXPECT_EQ(layout.size, 225);
  EXPECT_EQ(layout.getSumSize(), 3 * 225 + 2);
}

TEST(ExchangePlan, IsWrittenAndRead) {
  Plan plan = exchangingPlan();
  std::string json = writePlan(plan);
  Result<Plan> read = readPlan(json, "p");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(writePlan(*read), json);
  ASSERT_EQ(read->listBuckets().size(), 1u);
  EXPECT_EQ(read->listBuckets()[0]->format, Exchange::Exact);
  EXPECT_EQ(read->listBuckets()[0]->elements,
            (std::vector<std::int64_t>{3, 5}));
}

TEST(ExchangePlan, InvalidExchangesAreRejected) {
  EXPECT_EQ(rejection([](Plan &) {}), "accepted");
  EXPECT_EQ(rejection([](Plan &p) { p.buffers[1].offset = 192; }),
            "tensor 1 of a bucket is at 192, expected 128");
  EXPECT_EQ(rejection([](Plan &p) { exchangeOf(p, 0).elements.pop_back(); }),
            "an exchange of 2 tensors with sizes of 1");
  EXPECT_EQ(rejection([](Plan &p) { exchangeOf(p, 0).elements[1] = 0; }),
            "an exchange of a tensor of 0 elements");
  EXPECT_EQ(rejection([](Plan &p) { exchangeOf(p, 0).elements[1] = 6; }),
            "tensor 1 reaches element 5 of buffer 'h', which has 5");
  EXPECT_EQ(rejection([](Plan &p) { exchangeOf(p, 0).sums.reset(); }),
            "an exchange whose operands do not fit the action 'start'");
  EXPECT_EQ(rejection([](Plan &p) {
              p.buffers[2].shape = {63};
              p.buffers[2].bytes = 252;
            }),
            "sums reaches element 63 of buffer 'sums', which has 63");
  EXPECT_EQ(rejection([](Plan &p) { exchangeOf(p, 1).counter->buffer = 2; }),
            "an exchange of type I32, expected I64");
  EXPECT_EQ(rejection([](Plan &p) { p.buffers[0].dtype = DType::I32; }),
            "an exchange of type I32, expected F32");
}

TEST(ExchangePlan, ExchangesOutOfOrderAreRejected) {
  std::string order = "exchanges of the step are out of order";
  EXPECT_EQ(rejection([](Plan &p) { exchangeOf(p, 0).bucket = 1; }), order);
  EXPECT_EQ(rejection([](Plan &p) { exchangeOf(p, 1).bucket = 2; }), order);
  EXPECT_EQ(rejection([](Plan &p) { p.records.push_back(p.records[0]); }),
            order);
  EXPECT_EQ(rejection([](Plan &p) { p.records.push_back(p.accumulation[0]); }),
            order);
  EXPECT_EQ(rejection([](Plan &p) { p.records.pop_back(); }),
            "the step starts exchanges, but does not join them");
  EXPECT_EQ(rejection([](Plan &p) { p.evaluation = p.records; }),
            "exchanges of the evaluation are out of order");
  EXPECT_EQ(rejection([](Plan &p) {
              Loop loop;
              loop.count = 2;
              loop.body = {p.accumulation[0]};
              p.accumulation = {{"loop", loop}};
            }),
            "an exchange inside of a loop");
}
