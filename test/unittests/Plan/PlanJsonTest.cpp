//===- PlanJsonTest.cpp - Reading and writing of plans --------------------===//

#include "binade/Plan/PlanJson.h"
#include "SamplePlan.h"
#include "binade/Container/Json.h"
#include "binade/Container/Philox.h"
#include "gtest/gtest.h"

using namespace binade;
using namespace binade::plan;
using nlohmann::json;

TEST(PlanJson, APlanIsReadAsItWasWritten) {
  Plan plan = samplePlan();
  Result<Plan> read = readPlan(writePlan(plan), "plan");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(read->model, "sample");
  EXPECT_EQ(read->policyHash, "00ff");
  EXPECT_EQ(read->computation, "c0de");
  EXPECT_EQ(read->dims.at("batch"), 4);
  EXPECT_EQ(read->threads, 2u);
  EXPECT_TRUE(read->skipsNonFinite);
  EXPECT_EQ(read->ledger, plan.ledger);
  EXPECT_EQ(read->buffers[6].shape, (std::vector<std::int64_t>{1, 2, 3, 6}));
  EXPECT_EQ(read->buffers[3].dtype, DType::I64);
  EXPECT_EQ(read->ports[3].check->ignored, -100);
  EXPECT_EQ(read->ports[4].range->min, 0.0);
  EXPECT_EQ(read->ports[4].range->max, std::nullopt);
  EXPECT_EQ(read->ports[4].range->below, 2.5);
  EXPECT_EQ(std::get<ExternalInit>(read->ports[0].init).offset, 96u);
  EXPECT_EQ(std::get<RandomInit>(read->ports[1].init).origin, -0.5);
  EXPECT_EQ(std::get<FillInit>(read->ports[4].init).value, 1e-3);
  const auto &loop = std::get<Loop>(read->records[0].body);
  EXPECT_EQ(std::get<Matmul>(loop.body[0].body).lhs.steps,
            std::vector<std::int64_t>{4});
  const auto &launch = std::get<Launch>(read->records[1].body);
  EXPECT_EQ(launch.segments[0].operands[1].buffer, 4u);
  EXPECT_TRUE(launch.finish);
  EXPECT_EQ(std::get<Convolution>(read->records[2].body).kernel[1], 3);
  EXPECT_EQ(std::get<Copy>(read->records[3].body).to.strides[0], 4);
  EXPECT_TRUE(std::get<Attention>(read->records[4].body).causal);
  EXPECT_EQ(std::get<Attention>(read->records[5].body).gradients->dkey.offset,
            4);
  EXPECT_EQ(read->batches, 3);
  EXPECT_EQ(std::get<Launch>(read->accumulation[0].body).grain, 2);
  EXPECT_EQ(std::get<Launch>(read->evaluation[0].body).grain, 2);
  // No other field is lost either.
  EXPECT_EQ(writePlan(*read), writePlan(plan));
}

TEST(PlanJson, ScratchMemoryIsWrittenAndRead) {
  for (std::size_t record : {2u, 4u, 5u}) { // Convolution and attention.
    Plan plan = samplePlan();
    *findScratch(plan.records[record]) = View{2, 0, {}, {}};
    *findLibraryScratch(plan.records[record]) = View{4, 0, {}, {}};
    Result<Plan> read = readPlan(writePlan(plan), "plan");
    ASSERT_TRUE(read) << render(read.error());
    EXPECT_EQ((*findScratch(read->records[record]))->buffer, 2u);
    EXPECT_EQ((*findLibraryScratch(read->records[record]))->buffer, 4u);
  }
}

TEST(PlanJson, AlarmsAreWrittenAndRead) {
  Plan plan = samplePlan();
  AlarmRule rule;
  rule.name = "range";
  rule.watch = {"gradient:exponents@every=10"};
  rule.scope = AlarmScope::All;
  rule.value = "highest - lowest";
  rule.window = 100;
  rule.level = 32;
  rule.when = "count >= 3";
  rule.says = "{value} binades";
  rule.isShare = true;
  rule.forecast = 40;
  rule.remedy = "bf16";
  rule.origin = "alarms.yaml:7";
  plan.alarms = {{rule}, OnAlarm::Switch, "bf16-amp"};
  Result<Plan> read = readPlan(writePlan(plan), "plan");
  ASSERT_TRUE(read) << render(read.error());
  ASSERT_EQ(read->alarms.rules.size(), 1u);
  const AlarmRule &known = read->alarms.rules.front();
  EXPECT_EQ(known.watch, rule.watch);
  EXPECT_EQ(known.scope, AlarmScope::All);
  EXPECT_EQ(known.window, 100);
  EXPECT_EQ(known.forecast, 40);
  EXPECT_TRUE(known.isShare);
  EXPECT_EQ(known.origin, "alarms.yaml:7");
  EXPECT_EQ(read->alarms.action, OnAlarm::Switch);
  EXPECT_EQ(read->alarms.policy, "bf16-amp");
  EXPECT_EQ(writePlan(*read), writePlan(plan));
}

TEST(PlanJson, ParallelLoopsAreWrittenAndRead) {
  Plan plan = samplePlan();
  auto &loop = std::get<Loop>(plan.records[0].body);
  loop.slots = 3;
  plan.buffers[8].slot = plan.buffers[8].bytes;
  Result<Plan> read = readPlan(writePlan(plan), "plan");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(std::get<Loop>(read->records[0].body).slots, 3);
  EXPECT_EQ(read->buffers[8].slot, plan.buffers[8].bytes);
  EXPECT_EQ(read->buffers[7].slot, 0u);
}

TEST(PlanJson, MatmulsOfQuantizedOperandsAreWrittenAndRead) {
  Plan plan = samplePlan();
  plan.buffers[1].dtype = DType::F8_E4M3;
  plan.buffers[1].bytes /= 4;
  auto &loop = std::get<Loop>(plan.records[0].body);
  auto &matmul = std::get<Matmul>(loop.body[0].body);
  matmul.rhs.buffer = 1;
  matmul.lhsScale = View{4, 0, {}, {}};
  matmul.rhsScale = View{2, 1, {}, {}};
  matmul.bias = View{4, 0, {0}, {}};
  Result<Plan> read = readPlan(writePlan(plan), "plan");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(writePlan(*read), writePlan(plan));
  const auto &same =
      std::get<Matmul>(std::get<Loop>(read->records[0].body).body[0].body);
  std::vector<std::uint32_t> buffers;
  for (const Operand &operand : same.listOperands())
    buffers.push_back(operand.view.buffer);
  EXPECT_EQ(buffers, (std::vector<std::uint32_t>{1, 1, 2, 4, 4, 2}));
  EXPECT_EQ(same.rhsScale->offset, 1);
  EXPECT_FALSE(same.block);
}

TEST(PlanJson, BlockScalesAreWrittenAndRead) {
  Plan plan = samplePlan();
  plan.buffers[1].dtype = DType::F8_E4M3;
  plan.buffers[1].bytes /= 4;
  auto &loop = std::get<Loop>(plan.records[0].body);
  auto &matmul = std::get<Matmul>(loop.body[0].body);
  matmul.rhs.buffer = 1;
  matmul.block = ScaleBlock{1, 2, 3};
  matmul.lhsScale = View{2, 0, {1, 1}, {}};
  matmul.rhsScale = View{2, 1, {4, 1}, {}};
  Result<Plan> read = readPlan(writePlan(plan), "plan");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(writePlan(*read), writePlan(plan));
  const auto &same =
      std::get<Matmul>(std::get<Loop>(read->records[0].body).body[0].body);
  ASSERT_TRUE(same.block);
  EXPECT_EQ(same.block->m, 1);
  EXPECT_EQ(same.block->n, 2);
  EXPECT_EQ(same.block->k, 3);
  EXPECT_EQ(same.getLhsScaleSizes(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(same.getRhsScaleSizes(), (std::vector<std::int64_t>{2, 2}));
  std::string text = writePlan(plan);
  std::size_t at = text.find("\"block\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(text.find('3', at), 1, "3,4");
  Result<Plan> refused = readPlan(text, "plan");
  ASSERT_FALSE(refused);
  EXPECT_NE(
      render(refused.error()).find("key 'block' is not a list of 3 integers"),
      std::string::npos)
      << render(refused.error());
}

/// The sample plan with two states, one of them quantized with scales.
static Plan quantizedPlan() {
  Plan plan = samplePlan();
  plan.buffers.push_back({"m", 0, 12, DType::I8, {12}, Category::State});
  plan.buffers.push_back({"m.scale", 16, 4, DType::F32, {1}, Category::State});
  plan.ports[0].buffer = 2;
  auto last = static_cast<std::uint32_t>(plan.buffers.size());
  plan.ports.push_back({Role::State, "m/w", last - 2, {}, {}});
  plan.ports.push_back({Role::State, "m/w.scale", last - 1, {}, {}});
  plan.quantizedStates = {
      {"#binade.quantized<a>", {{{"m/w", "m/w.scale"}, {4, 3}}}}};
  return plan;
}

TEST(PlanJson, QuantizedStatesAreWrittenAndRead) {
  Plan plan = quantizedPlan();
  Result<Plan> read = readPlan(writePlan(plan), "plan");
  ASSERT_TRUE(read) << render(read.error());
  ASSERT_EQ(read->quantizedStates.size(), 1u);
  const QuantizedStates &quantized = read->quantizedStates.front();
  EXPECT_EQ(quantized.format, "#binade.quantized<a>");
  ASSERT_EQ(quantized.states.size(), 1u);
  EXPECT_EQ(quantized.states[0].parts,
            (std::vector<std::string>{"m/w", "m/w.scale"}));
  EXPECT_EQ(quantized.states[0].shape, (std::vector<std::int64_t>{4, 3}));
}

TEST(PlanJson, QuantizedStatesMustConsistOfStates) {
  for (const char *name : {"w", "m/w"}) { // A parameter; a part in use.
    Plan plan = quantizedPlan();
    plan.quantizedStates[0].states.push_back({{name}, {4, 3}});
    Result<void> valid = validate(plan, "plan");
    ASSERT_FALSE(valid);
    EXPECT_NE(valid.error().message.find("of a quantized state is not a state"),
              std::string::npos);
  }
}

TEST(PlanJson, PortsAreFoundByRoleAndName) {
  Plan plan = samplePlan();
  ASSERT_NE(plan.findPort(Role::Hyper, "lr"), nullptr);
  EXPECT_EQ(plan.findPort(Role::Hyper, "lr")->buffer, 5u);
  EXPECT_EQ(plan.findPort(Role::Parameter, "lr"), nullptr);
}

/// Replaces the value at `pointer` and returns the message of the rejection.
static std::string rejection(const std::string &pointer, json value) {
  json object = json::parse(writePlan(samplePlan()));
  object[json::json_pointer(pointer)] = std::move(value);
  Result<Plan> read = readPlan(object.dump(), "plan");
  if (read)
    return "accepted";
  EXPECT_EQ(read.error().exitCode, ExitCode::Rejected);
  return render(read.error());
}

TEST(PlanJson, TypesAndKeysAreChecked) {
  EXPECT_EQ(rejection("/version", 2),
            "plan: error: plan of version 2, this runtime reads version 1\n"
            "plan: note: use a newer runtime");
  EXPECT_EQ(rejection("/colour", 1), "plan: error: key 'colour' is not known");
  EXPECT_EQ(rejection("/buffers/1/offset", -1),
            "plan:buffer 1: error: key 'offset' is not a size");
  EXPECT_EQ(rejection("/buffers/1/offset", 1.5),
            "plan:buffer 1: error: key 'offset' is not an integer of 64 bits");
  EXPECT_EQ(rejection("/arena_bytes", UINT64_MAX),
            "plan: error: key 'arena_bytes' is not an integer of 64 bits");
  EXPECT_EQ(rejection("/buffers/1/dtype", "F31"),
            "plan:buffer 1: error: type 'F31' is not known");
  EXPECT_EQ(rejection("/records/0/body/0/lhs/buffer", std::int64_t(1) << 32),
            "plan:record 0 record 0 lhs: error: key 'buffer' is not an index");
  EXPECT_EQ(rejection("/records/0/kind", "branch"),
            "plan:record 0: error: record kind 'branch' is not known");
  EXPECT_EQ(rejection("/records", "none"),
            "plan: error: key 'records' is not a list");
  EXPECT_EQ(rejection("/ports/0/init", json::array()),
            "plan:port 0 init: error: expected an object");
}

/// A policy that extends another one; the hashes are those of sha256sum.
static Plan planWithPolicies() {
  Plan plan = samplePlan();
  plan.policy = "mine";
  plan.policyHash =
      "6d269c691866c4d678f6e079ff6452b72b65504c8260970fb4f51f6da80d2b14";
  plan.policyTexts = {
      {"mine", plan.policyHash, "name: mine\n", "target: t\n"},
      {"base",
       "c40748063e56a281e9f5652098c899bc50bc2ff28577991b6a8a529be0e73f24",
       "name: base\n", ""}};
  return plan;
}

TEST(PlanJson, TextsOfPoliciesAreRead) {
  Plan plan = planWithPolicies();
  Result<Plan> read = readPlan(writePlan(plan), "plan");
  ASSERT_TRUE(read) << render(read.error());
  ASSERT_EQ(read->policyTexts.size(), 2u);
  EXPECT_EQ(read->policyTexts[0].text, "name: mine\n");
  EXPECT_EQ(read->policyTexts[0].costs, "target: t\n");
  EXPECT_EQ(read->policyTexts[1].name, "base");
  EXPECT_EQ(writePlan(*read), writePlan(plan));
}

TEST(PlanJson, HashesOfPoliciesMustMatchTheirText) {
  auto reject = [](auto change) {
    Plan plan = planWithPolicies();
    change(plan);
    Result<Plan> read = readPlan(writePlan(plan), "plan");
    return read ? "accepted" : render(read.error());
  };
  const std::string mine = "plan: error: the text of policy 'mine' does not "
                           "have the SHA-256 that the plan specifies";
  EXPECT_EQ(reject([](Plan &p) { p.policyTexts[0].text += " "; }), mine);
  EXPECT_EQ(reject([](Plan &p) { p.policyTexts[0].costs = ""; }), mine);
  EXPECT_EQ(reject([](Plan &p) { p.policyTexts.pop_back(); }), mine);
  EXPECT_EQ(reject([](Plan &p) { p.policyTexts[1].text = ""; }),
            "plan: error: the text of policy 'base' does not have the SHA-256 "
            "that the plan specifies");
  EXPECT_EQ(reject([](Plan &p) { p.policyHash = "00ff"; }),
            "plan: error: policy 'mine' is not the one whose text follows, "
            "'mine'");
  EXPECT_EQ(reject([](Plan &p) { p.policy = "other"; }),
            "plan: error: policy 'other' is not the one whose text follows, "
            "'mine'");
}

TEST(PlanJson, BrokenTextIsRejected) {
  std::string text = writePlan(samplePlan());
  // Every truncation is an error, none a crash.
  for (std::size_t length = 0; length < text.size(); length += 7)
    EXPECT_FALSE(readPlan(text.substr(0, length), "plan"));
  EXPECT_FALSE(readPlan(std::string(100000, '['), "plan"));
}

TEST(PlanJson, ChangedTextIsReadOrRejected) {
  // Writes digits, signs and braces in random places. Most plans become
  // invalid; those that are accepted must be valid.
  const std::string text = writePlan(samplePlan());
  const std::string_view bytes = "0123456789-{}[],:.eE\"tn";
  int accepted = 0;
  for (std::uint32_t trial = 0; trial < 3000; ++trial) {
    std::string changed = text;
    auto words = philox({trial, 0, 0, 0}, {5, 6});
    for (std::uint32_t n = 0; n <= words[0] % 3; ++n)
      changed[words[n + 1] % changed.size()] =
          bytes[words[n + 1] / changed.size() % bytes.size()];
    Result<Plan> read = readPlan(changed, "plan");
    if (!read)
      continue;
    ++accepted;
    EXPECT_TRUE(validate(*read, "plan"));
    EXPECT_TRUE(readPlan(writePlan(*read), "plan"));
  }
  EXPECT_GT(accepted, 20);
  EXPECT_LT(accepted, 2500);
}

TEST(PlanJson, DeepLoopsAreRejected) {
  json object = json::parse(writePlan(samplePlan()));
  json loop = {{"kind", "loop"}, {"count", 1}, {"body", json::array()}};
  for (std::size_t depth = 0; depth < kMaxLoopDepth; ++depth)
    loop = {{"kind", "loop"}, {"count", 1}, {"body", json::array({loop})}};
  object["records"] = json::array({loop});
  EXPECT_FALSE(readPlan(object.dump(), "plan"));
  object["records"] = loop["body"];
  EXPECT_TRUE(readPlan(object.dump(), "plan"));
}
