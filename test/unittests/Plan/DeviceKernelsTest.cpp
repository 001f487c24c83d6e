//===- DeviceKernelsTest.cpp - Kernels and modules of plans for GPUs ------===//

#include "../Container/TemporaryDirectory.h"
#include "SamplePlan.h"
#include "binade/Plan/Bundle.h"
#include "binade/Plan/PlanJson.h"
#include "gtest/gtest.h"

using namespace binade;
using namespace binade::plan;
using test::readFile;
using test::TemporaryDirectory;
using test::writeFile;

/// The sample plan for a GPU, with a multi-tensor kernel and an ordinary one.
static Plan devicePlan() {
  Plan plan = samplePlan();
  plan.chip = "sm_90";
  plan.deviceKernels = {{"mean",
                         1,
                         {{"mean_all", {0, 1, 1}, {256, 1, 1}},
                          {"mean_finish", {1, 1, 1}, {1024, 1, 1}}}},
                        {"relu", 0, {{"relu_all", {12, 2, 1}, {32, 4, 2}}}}};
  std::get<Convolution>(plan.records[2].body).deviceKernel = "relu";
  return plan;
}

template <typename Change> static std::string rejection(Change change) {
  Plan plan = devicePlan();
  change(plan);
  // Go through text: a plan of another producer is read, not built in memory.
  Result<Plan> read = readPlan(writePlan(plan), "p");
  if (read)
    return "accepted";
  return read.error().part + ": " + read.error().message;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

TEST(DeviceKernels, AreReadAsTheyWereWritten) {
  Plan plan = devicePlan();
  Result<Plan> read = readPlan(writePlan(plan), "plan");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(read->chip, "sm_90");
  ASSERT_EQ(read->deviceKernels.size(), 2u);
  const DeviceKernel *mean = read->findDeviceKernel("mean");
  ASSERT_TRUE(mean);
  EXPECT_TRUE(mean->isMultiTensor());
  EXPECT_EQ(mean->module, 1u);
  ASSERT_EQ(mean->entries.size(), 2u);
  EXPECT_EQ(mean->entries[1].symbol, "mean_finish");
  const DeviceKernel *relu = read->findDeviceKernel("relu");
  ASSERT_TRUE(relu);
  EXPECT_FALSE(relu->isMultiTensor());
  EXPECT_EQ(relu->entries[0].grid, (std::vector<std::int64_t>{12, 2, 1}));
  EXPECT_EQ(relu->entries[0].block, (std::vector<std::int64_t>{32, 4, 2}));
  EXPECT_FALSE(read->findDeviceKernel("relu_all"));
  EXPECT_EQ(std::get<Convolution>(read->records[2].body).deviceKernel, "relu");
  EXPECT_EQ(writePlan(*read), writePlan(plan));
  // Plans for CPUs have no device kernels.
  EXPECT_EQ(writePlan(samplePlan()).find("device_kernels"), std::string::npos);
}

TEST(DeviceKernels, NeedAPlanWithAChip) {
  EXPECT_EQ(rejection([](Plan &) {}), "accepted");
  Plan plan = devicePlan();
  plan.chip.clear();
  Result<void> valid = validate(plan, "p");
  ASSERT_FALSE(valid);
  EXPECT_EQ(valid.error().message,
            "device kernels without a chip that they are compiled for");
  EXPECT_EQ(rejection([](Plan &p) { p.deviceKernels[1].name = "mean"; }),
            "device kernel 'mean': two kernels have this name");
}

TEST(DeviceKernels, HaveEntriesThatADriverCanLaunch) {
  auto change = [](auto edit) {
    return rejection([&](Plan &p) {
      edit(p.deviceKernels[1].entries, p.deviceKernels[1].entries[0]);
    });
  };
  using Entries = std::vector<DeviceKernel::Entry>;
  using Entry = DeviceKernel::Entry;
  const std::string relu = "device kernel 'relu': ";
  EXPECT_EQ(change([](Entries &entries, Entry &) { entries.clear(); }),
            relu + "0 entries, expected 1 to 256");
  EXPECT_EQ(
      change([](Entries &entries, Entry entry) { entries.assign(257, entry); }),
      relu + "257 entries, expected 1 to 256");
  EXPECT_EQ(change([](Entries &, Entry &entry) { entry.grid.pop_back(); }),
            relu + "a grid or block without 3 axes");
  EXPECT_EQ(change([](Entries &, Entry &entry) { entry.block = {}; }),
            relu + "a grid or block without 3 axes");
  EXPECT_EQ(change([](Entries &, Entry &entry) { entry.grid[0] = -1; }),
            relu + "a grid of -1 blocks along an axis");
  EXPECT_EQ(change([](Entries &, Entry &entry) { entry.grid[1] = 0; }),
            relu + "a grid of 0 blocks along an axis");
  EXPECT_EQ(change([](Entries &, Entry &entry) {
              entry.grid[0] = std::int64_t(1) << 31;
            }),
            relu + "a grid of 2147483648 blocks along an axis");
  // Only the first entry may leave its number of blocks to the runtime.
  EXPECT_EQ(change([](Entries &entries, Entry &entry) {
              entries = {entry, {"finish", {0, 1, 1}, {32, 1, 1}}};
            }),
            relu + "a grid of 0 blocks along an axis");
  const std::string threads = relu + "blocks of no threads, or more than 1024";
  EXPECT_EQ(change([](Entries &, Entry &entry) { entry.block[2] = 0; }),
            threads);
  EXPECT_EQ(change([](Entries &, Entry &entry) { entry.block = {32, 32, 2}; }),
            threads);
  EXPECT_EQ(change([](Entries &, Entry &entry) {
              entry.block = {1024, std::int64_t(1) << 54, 1};
            }),
            threads);
}

TEST(DeviceKernels, HaveAlignmentsThatTheirOperandsSatisfy) {
  Plan plan = devicePlan();
  plan.deviceKernels[1].alignments = {16, 4};
  Result<Plan> read = readPlan(writePlan(plan), "plan");
  ASSERT_TRUE(read) << render(read.error());
  const DeviceKernel *relu = read->findDeviceKernel("relu");
  EXPECT_EQ(relu->getAlignment(0), 16);
  EXPECT_EQ(relu->getAlignment(1), 4);
  EXPECT_EQ(relu->getAlignment(2), kDeviceAlignment);
  for (std::int64_t illegal : {0, 3, 32, -4})
    EXPECT_EQ(rejection([&](Plan &p) {
                p.deviceKernels[1].alignments = {16, illegal};
              }),
              "device kernel 'relu': an operand at a multiple of " +
                  std::to_string(illegal) + " bytes, expected a divisor of 16");
  // Row i of y, three f32, is at 128 + 12 i.
  EXPECT_EQ(findAlignment(plan.buffers, {2, 0, {}, {}}), 16);
  EXPECT_EQ(findAlignment(plan.buffers, {2, 0, {}, {3}}), 4);
  EXPECT_EQ(findAlignment(plan.buffers, {2, 2, {}, {4}}), 8);
  EXPECT_EQ(findAlignment(plan.buffers, {3, 1, {}, {}}), 8);
}

TEST(DeviceKernels, AreLaunchedByRecordsOfTheRightKind) {
  auto change = [](auto edit) {
    return rejection([&](Plan &p) {
      Launch launch;
      launch.kernel = "mean";
      View view;
      launch.segments = {{"mean", {view}, 8}, {"mean", {view}, 8}};
      Matmul matmul;
      matmul.lhs = matmul.rhs = matmul.out = {0, 0, {1, 1}, {}};
      Copy copy{{0, 0, {}, {}}, {0, 0, {}, {}}, {}};
      edit(p, launch, matmul, copy);
      p.records = {{"launch", launch}, {"matmul", matmul}, {"copy", copy}};
    });
  };
  EXPECT_EQ(change([](Plan &, Launch &, Matmul &, Copy &) {}), "accepted");
  EXPECT_EQ(change([](Plan &, Launch &launch, Matmul &matmul, Copy &copy) {
              launch.segments = {{"relu", {View()}, 8}};
              launch.kernel = matmul.deviceKernel = copy.deviceKernel = "relu";
            }),
            "accepted");
  const std::string launched = "record 0 'launch': ";
  EXPECT_EQ(change([](Plan &, Launch &launch, Matmul &, Copy &) {
              for (Segment &segment : launch.segments)
                segment.kernel = "relu";
            }),
            launched + "a launch of 2 segments, and a device kernel for one "
                       "set of operands");
  EXPECT_EQ(change([](Plan &, Launch &launch, Matmul &, Copy &) {
              launch.segments[1].kernel = "relu";
            }),
            launched + "device kernel 'relu' for one set of operands next to "
                       "one for several tensors");
  EXPECT_EQ(change([](Plan &, Launch &launch, Matmul &, Copy &) {
              launch.kernel = "relu";
              launch.finish = true;
            }),
            launched + "device kernel 'relu' for one set of operands ends a "
                       "launch for several tensors");
  const std::string unlaunched =
      "device kernel 'mean' is a multi-tensor kernel, expected a launch record";
  EXPECT_EQ(change([](Plan &, Launch &, Matmul &matmul, Copy &) {
              matmul.deviceKernel = "mean";
            }),
            "record 1 'matmul': " + unlaunched);
  EXPECT_EQ(change([](Plan &, Launch &, Matmul &, Copy &copy) {
              copy.deviceKernel = "mean";
            }),
            "record 2 'copy': " + unlaunched);
  // A split-K matmul has a second entry, which adds the partial sums.
  EXPECT_EQ(change([](Plan &plan, Launch &, Matmul &matmul, Copy &) {
              matmul.deviceKernel = "relu";
              plan.deviceKernels[1].entries.push_back(
                  {"relu_finish", {1, 1, 1}, {32, 1, 1}});
            }),
            "accepted");
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

static std::vector<std::byte> bytesOf(std::string_view text) {
  auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Writes a bundle with two modules, applies `change` to its bytes, reads it.
template <typename Change> static std::string readModules(Change change) {
  TemporaryDirectory directory;
  Bundle bundle;
  bundle.plan = devicePlan();
  bundle.modules = {{{"compute_90", bytesOf("text of zero")}},
                    {{"compute_90", bytesOf("text of one")},
                     {"sm_90", bytesOf("code of one")}}};
  if (auto done = writeBundle(directory / "b", bundle); !done)
    return render(done.error());
  std::string bytes = readFile(directory / "b");
  change(bytes);
  writeFile(directory / "b", bytes);
  Result<Safetensors> file = Safetensors::open(directory / "b");
  if (!file)
    return render(file.error());
  Result<std::vector<ModuleImages>> modules = readBundleModules(*file);
  if (!modules)
    return modules.error().part + ": " + modules.error().message;
  return *modules == bundle.modules ? "the same" : "others";
}

/// Replaces a text by one of the same length, so that no offset changes.
static void replace(std::string &bytes, std::string_view from,
                    std::string_view to) {
  ASSERT_EQ(from.size(), to.size());
  std::size_t found = 0, count = 0;
  for (; (found = bytes.find(from, found)) != bytes.npos; ++count)
    bytes.replace(found, from.size(), to);
  ASSERT_GT(count, 0u);
}

TEST(DeviceModules, AreReadAsTheyWereWritten) {
  EXPECT_EQ(readModules([](std::string &) {}), "the same");
}

TEST(DeviceModules, AreRejectedIfDamaged) {
  EXPECT_EQ(readModules([](std::string &bytes) {
              replace(bytes, "code of one", "code of 0ne");
            }),
            "tensor 'modules/1/sm_90': the bytes do not have the SHA-256 that "
            "the bundle specifies: it was damaged or edited");
}

TEST(DeviceModules, MustBeNamedByNumberAndChip) {
  for (std::string name :
       {"modules/x/sm_90", "modules/-/sm_90", "modules//asm_90",
        "modules/1:sm_90", "modules/9/sm_90", "modules/1asm_90"})
    EXPECT_EQ(readModules([&](std::string &bytes) {
                replace(bytes, "modules/1/sm_90", name);
              }),
              "tensor '" + name +
                  "': not the name of a module, expected "
                  "'modules/NUMBER/CHIP'");
}
