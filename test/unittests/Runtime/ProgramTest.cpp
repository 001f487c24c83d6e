//===- ProgramTest.cpp - Loading of bundles and initial values ------------===//

#include "../../../lib/Runtime/Execution/InitialValues.h"
#include "KernelBundle.h"
#include "OneRecord.h"
#include "nlohmann/json.hpp"
#include <cstdlib>
#include <elf.h>
#include <filesystem>
#include <set>

using namespace binade;
using namespace binade::plan;

namespace {
class ProgramTest : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "binade-XXXXXX";
    directory = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  std::string path(std::string_view name) {
    return directory + "/" + std::string(name);
  }
  std::string directory;
};
} // namespace

/// A plan with one output, which the kernel `answer` writes.
static Plan answerPlan() {
  Tensors tensors;
  std::uint32_t out = tensors.add(DType::F32, {});
  Launch launch;
  launch.kernel = "answer";
  launch.segments = {{"", {{out, 0, {}, {}}}, 1}};
  tensors.plan.records = {{"answer", launch}};
  tensors.plan.ledger = {{Category::Workspace, tensors.plan.arenaBytes}};
  return tensors.plan;
}

/// Returns exit code and error, or the output of the program.
static std::string outcome(const Result<Program> &program) {
  if (!program)
    return std::to_string(program.error().exitCode) + " " +
           render(program.error());
  EXPECT_TRUE(const_cast<Program &>(*program).run());
  return std::to_string(static_cast<int>(tensorOf(*program, 0).as<float>()[0]));
}

TEST_F(ProgramTest, BundlesAreWrittenAndRead) {
  ASSERT_TRUE(writeBundle(path("b"), bundleWithKernels(answerPlan())));
  EXPECT_EQ(outcome(Program::load(path("b"))), "42");
  std::vector<std::byte> bytes = bytesOf(path("b"));
  EXPECT_EQ(outcome(Program::load(bytes, "memory", "")), "42");
  EXPECT_EQ(outcome(Program::load(path("absent"))).substr(0, 2), "3 ");
}

TEST_F(ProgramTest, TwoObjectsInOneProcessAreSeparate) {
  Result<Program> first =
      Program::load(bundleWithKernels(answerPlan()), "first", "");
  EXPECT_EQ(outcome(first), "42");
  EXPECT_EQ(outcome(Program::load(
                bundleWithKernels(answerPlan(), BINADE_KERNELS_7), "b", "")),
            "7");
  EXPECT_EQ(outcome(first), "42");
}

TEST_F(ProgramTest, DamagedBundlesAreRejected) {
  ASSERT_TRUE(writeBundle(path("b"), bundleWithKernels(answerPlan())));
  Result<Safetensors> file = Safetensors::open(path("b"));
  ASSERT_TRUE(file);
  for (std::string name : {"plan", "kernels/x86-64-v3"}) {
    std::vector<std::byte> bytes = bytesOf(path("b"));
    bytes[file->find(name)->offset + 9] ^= std::byte(1);
    std::string text = outcome(Program::load(bytes, "b", ""));
    EXPECT_NE(text.find("3 b:tensor '" + name +
                        "': error: the bytes do not have the SHA-256"),
              text.npos)
        << text;
  }
  ASSERT_TRUE(writeSafetensors(path("s"), {}, {}));
  EXPECT_EQ(outcome(Program::load(path("s"))),
            "3 " + path("s") +
                ": error: a safetensors file, but not a bundle\n" + path("s") +
                ": note: 'binade compile MODEL.onnx -o FILE' writes one");
}

/// Loads a bundle after `change` of its kernel object; returns the outcome.
template <typename Change> static std::string withObject(Change change) {
  Bundle bundle = bundleWithKernels(answerPlan());
  change(bundle.kernels["x86-64-v3"]);
  return outcome(Program::load(std::move(bundle), "b", ""));
}

TEST_F(ProgramTest, ObjectsOfOtherKindsAreRefused) {
  auto header = [](std::vector<std::byte> &object) {
    return reinterpret_cast<Elf64_Ehdr *>(object.data());
  };
  const std::string start = "3 b:tensor 'kernels/x86-64-v3': error: ";
  EXPECT_EQ(withObject([](auto &object) { object.resize(10); }),
            start + "not an ELF object: 10 bytes");
  EXPECT_EQ(withObject([](auto &object) { object[1] = std::byte('e'); }),
            start + "not an ELF object");
  EXPECT_EQ(
      withObject([&](auto &object) { header(object)->e_machine = EM_AARCH64; }),
      start + "an ELF object of another machine (183), expected x86-64");
  EXPECT_EQ(withObject([&](auto &object) { header(object)->e_type = ET_REL; }),
            start + "an ELF object that is not a shared object");
  EXPECT_EQ(withObject([&](auto &object) { header(object)->e_phoff = ~0ull; }),
            start + "program headers lie outside of the ELF object");
  std::string cut =
      withObject([](auto &object) { object.resize(object.size() / 4); });
  EXPECT_NE(cut.find("it has been cut off"), cut.npos) << cut;
}

TEST_F(ProgramTest, MissingKernelsAreRejected) {
  Plan plan = answerPlan();
  std::get<Launch>(plan.records[0].body).kernel = "question";
  EXPECT_EQ(outcome(Program::load(bundleWithKernels(plan), "b", "")),
            "3 b:record 'answer': error: the kernels have no function "
            "'question'");
  std::get<Launch>(plan.records[0].body).kernel = "answer";
  std::get<Launch>(plan.records[0].body).finish = true;
  EXPECT_EQ(outcome(Program::load(bundleWithKernels(plan), "b", "")),
            "3 b:record 'answer': error: the kernels have no function "
            "'answer_finish'");
  Bundle none;
  none.plan = answerPlan();
  none.kernels["riscv"] = {};
  std::string text = outcome(Program::load(std::move(none), "b", ""));
  EXPECT_NE(text.find("6 b: error: no kernels for this CPU"), text.npos);
  EXPECT_NE(text.find("the bundle has riscv"), text.npos);
}

TEST_F(ProgramTest, ArenasLargerThanMemoryAreRefused) {
  Plan plan = answerPlan();
  plan.arenaBytes = std::uint64_t(1) << 46;
  plan.ledger = {{Category::Workspace, plan.arenaBytes}};
  std::string text = outcome(Program::load(bundleWithKernels(plan), "b", ""));
  EXPECT_EQ(text.find("7 b: error: needs 67108864 MiB of memory"), 0u) << text;
}

/// A plan with a parameter for each kind of initial value.
static Plan initialPlan() {
  Tensors tensors;
  tensors.add(DType::F32, {4});
  tensors.add(DType::F32, {3});
  tensors.add(DType::F32, {6});
  tensors.add(DType::BF16, {4});
  tensors.add(DType::F32, {2});
  tensors.add(DType::I64, {2});
  Plan &plan = tensors.plan;
  for (Port &port : plan.ports)
    port.role = Role::Parameter;
  plan.ports[0].init = ExternalInit{"w.bin", 8, 16, ""};
  plan.ports[1].init = BundleInit{"init/stored"};
  plan.ports[2].init = RandomInit{RandomInit::Normal, 0, 0.02};
  plan.ports[2].name = "layer.weight";
  plan.ports[3].init = RandomInit{RandomInit::Uniform, -0.5, 1};
  plan.ports[3].name = "layer.bias";
  plan.ports[4].init = FillInit{1.5};
  plan.ports[5].role = Role::Rng;
  plan.ledger = {{Category::Workspace, plan.arenaBytes}};
  return plan;
}

TEST_F(ProgramTest, InitialValuesOfAllKindsAreSet) {
  std::vector<float> weights = {9, 9, 1, 2, 3, 4};
  std::ofstream(path("w.bin"), std::ios::binary)
      .write(reinterpret_cast<const char *>(weights.data()), 24);
  std::vector<float> stored = {-1, -2, -3};
  Bundle bundle;
  bundle.plan = initialPlan();
  auto storedBytes = std::as_bytes(std::span(stored));
  bundle.init = {{"init/stored",
                  DType::F32,
                  {3},
                  {storedBytes.begin(), storedBytes.end()}}};
  ASSERT_TRUE(writeBundle(path("b"), bundle));
  for (bool fromFile : {true, false}) {
    Result<Program> program = fromFile
                                  ? Program::load(path("b"))
                                  : Program::load(bundle, "memory", directory);
    ASSERT_TRUE(program);
    Result<void> done = program->initialize(42);
    ASSERT_TRUE(done) << render(done.error());
    auto floats = [&](std::string_view name) {
      auto span = program->find(Role::Parameter, name)->as<float>();
      return std::vector<float>(span.begin(), span.end());
    };
    EXPECT_EQ(floats("t0"), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(floats("t1"), stored);
    EXPECT_EQ(floats("t4"), (std::vector<float>{1.5, 1.5}));
    EXPECT_EQ(floats("layer.weight")[5],
              static_cast<float>(drawInitial({RandomInit::Normal, 0, 0.02},
                                             "layer.weight", 42, 5)));
    auto bias =
        program->find(Role::Parameter, "layer.bias")->as<std::uint16_t>();
    EXPECT_EQ(bias[3],
              floatToBF16(static_cast<float>(drawInitial(
                  {RandomInit::Uniform, -0.5, 1}, "layer.bias", 42, 3))));
    auto rng = program->find(Role::Rng, "t5")->as<std::int64_t>();
    EXPECT_EQ(rng[0], 42);
    EXPECT_EQ(rng[1], 0);
  }
}

TEST_F(ProgramTest, RandomValuesMatchTheirDefinition) {
  // test/data/make_initial_values.py writes this file after docs/Import.md.
  // The tests of the Python package read it, too.
  std::ifstream file(BINADE_SOURCE_DIR "/test/data/initial-values.json");
  nlohmann::json list = nlohmann::json::parse(file);
  ASSERT_FALSE(list.empty());
  for (const nlohmann::json &entry : list) {
    const nlohmann::json &rule = entry["rule"];
    RandomInit init;
    if (rule["rule"] == "normal") {
      init = {RandomInit::Normal, rule["mean"], rule["std"]};
    } else {
      double low = rule["low"], high = rule["high"];
      init = {RandomInit::Uniform, low, high - low};
    }
    for (const auto &[index, value] : entry["elements"].items())
      EXPECT_NEAR(drawInitial(init, entry["name"].get<std::string>(),
                              entry["seed"].get<std::uint64_t>(),
                              std::stoull(index)),
                  value.get<double>(), 1e-15)
          << entry["name"] << " " << index;
  }
}

TEST_F(ProgramTest, MissingWeightsAreNamed) {
  Bundle bundle;
  bundle.plan = initialPlan();
  Result<Program> program = Program::load(bundle, "memory", directory);
  ASSERT_TRUE(program);
  Result<void> done = program->initialize(0);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().exitCode, 3);
  EXPECT_NE(done.error().where.find("w.bin"), std::string::npos);
  EXPECT_EQ(done.error().part, "parameter 't0'");
  std::ofstream(path("w.bin")) << "short";
  done = program->initialize(0);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().exitCode, 3);
}

TEST_F(ProgramTest, WeightsThatAreNotFiniteAreReported) {
  std::vector<std::uint32_t> bits = {0, 0, 0, 0x3f800000, 0x7fc00000, 0};
  std::ofstream(path("w.bin"), std::ios::binary)
      .write(reinterpret_cast<const char *>(bits.data()), 24);
  Bundle bundle;
  bundle.plan = initialPlan();
  bundle.plan.ports.erase(bundle.plan.ports.begin() + 1);
  std::vector<std::string> lines;
  LoadOptions options;
  options.notify = [&](std::string_view line) { lines.emplace_back(line); };
  Result<Program> program = Program::load(bundle, "memory", directory, options);
  ASSERT_TRUE(program && program->initialize(0));
  EXPECT_EQ(lines, std::vector<std::string>{
                       "warning: memory: parameter 't0' starts with 1 value "
                       "that is not finite, the first as element 2"});
  options.failOnNonfinite = true;
  program = Program::load(bundle, "memory", directory, options);
  ASSERT_TRUE(program);
  Result<void> done = program->initialize(0);
  ASSERT_FALSE(done);
  EXPECT_EQ(render(done.error()),
            "memory:parameter 't0': error: starts with 1 value that is not "
            "finite, the first as element 2");
  EXPECT_EQ(done.error().exitCode, 3);
  EXPECT_EQ(lines.size(), 1u);
}

TEST_F(ProgramTest, StateIsSavedAndRestored) {
  Tensors tensors;
  for (Role role : {Role::Parameter, Role::Buffer, Role::State, Role::Scaler,
                    Role::Rng, Role::Step, Role::Batch}) {
    bool counter = role == Role::Rng || role == Role::Step;
    std::uint32_t index = tensors.add(counter ? DType::I64 : DType::F32,
                                      role == Role::Scaler || role == Role::Step
                                          ? std::vector<std::int64_t>{}
                                          : std::vector<std::int64_t>{2});
    tensors.plan.ports[index].role = role;
    tensors.plan.ports[index].name = role == Role::Scaler   ? "scale"
                                     : role == Role::State  ? "exp_avg/w"
                                     : role == Role::Buffer ? "running"
                                                            : "w";
  }
  tensors.plan.policyHash = "abc";
  Program program = tensors.load(Contraction::Auto, 1);
  int value = 0;
  for (const Tensor &tensor : program.tensors())
    for (std::byte &byte : tensor.bytes)
      byte = static_cast<std::byte>(++value);
  ASSERT_TRUE(program.save(path("final")));
  Result<Safetensors> file = Safetensors::open(path("final"));
  ASSERT_TRUE(file);
  std::set<std::string> names;
  for (const TensorInfo &tensor : file->getTensors())
    names.insert(tensor.name);
  EXPECT_EQ(names, (std::set<std::string>{"w", "running", "state/exp_avg/w",
                                          "scaler/scale", "rng", "step"}));
  EXPECT_EQ(file->getMetadata().at("policy_hash"), "abc");
  EXPECT_EQ(file->getMetadata().at("format_version"), "1");

  Program other = tensors.load(Contraction::Auto, 1);
  Result<Restored> restored = other.restore(*file);
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->tensors, 6u);
  EXPECT_TRUE(restored->missing.empty() && restored->unknown.empty());
  for (Role role : {Role::Parameter, Role::State, Role::Scaler, Role::Step}) {
    Tensor a = program.tensors(role)[0], b = other.tensors(role)[0];
    EXPECT_TRUE(std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin()));
  }

  // A tensor with another shape is rejected, and no state changes.
  std::vector<float> three = {1, 2, 3};
  auto bytes = std::as_bytes(std::span(three));
  ASSERT_TRUE(writeSafetensors(
      path("bad"), std::array{TensorBytes{"running", DType::F32, {3}, bytes}}));
  Result<Safetensors> bad = Safetensors::open(path("bad"));
  ASSERT_TRUE(bad);
  restored = other.restore(*bad);
  ASSERT_FALSE(restored);
  EXPECT_EQ(render(restored.error()),
            path("bad") +
                ":tensor 'running': error: F32 [3], the program has F32 [2]");
  ASSERT_TRUE(writeSafetensors(
      path("none"), std::array{TensorBytes{"x", DType::F32, {3}, bytes}}));
  Result<Safetensors> none = Safetensors::open(path("none"));
  ASSERT_TRUE(none);
  EXPECT_FALSE(other.restore(*none));
}
