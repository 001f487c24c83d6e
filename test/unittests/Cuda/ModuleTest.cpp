//===- ModuleTest.cpp - Choice of the kernel image of a device ------------===//

#include "SimulatedDevice.h"

using namespace binade;
using namespace binade::cuda;
using testing::AllOf;
using testing::HasSubstr;

namespace {
struct ModuleTest : SimulatedDevice {
  ModuleTest() {
    define(cubin, kAdd);
    define(ptx, kAdd);
  }

  /// Loads one of `images`; returns its chip, or the error.
  std::string
  loadAny(std::vector<std::pair<const char *, std::string>> images) {
    std::vector<KernelImage> all;
    for (auto &[chip, image] : images)
      all.push_back({*Chip::parse(chip), bytesOf(image)});
    auto module = Module::load(*device, all, "step.bnd");
    return module ? module->getChip().format() : render(module.error());
  }

  // Only the header of an ELF file without sections.
  std::string cubin = std::string("\x7f"
                                  "ELF",
                                  4) +
                      std::string(60, '\0');
  std::string ptx = ".version 8.3\n.target sm_80\n";
};
} // namespace

TEST_F(ModuleTest, TheImageOfTheDevicesArchitectureIsLoaded) {
  open();
  EXPECT_EQ(loadAny({{"compute_80", ptx}, {"sm_90", cubin}}), "sm_90");
  EXPECT_EQ(loadAny({{"sm_80", cubin}, {"compute_80", ptx}}), "compute_80");
}

TEST_F(ModuleTest, PtxIsLoadedIfTheCubinIsRefused) {
  open("load_cubin=209");
  EXPECT_EQ(loadAny({{"sm_90", cubin}, {"compute_80", ptx}}), "compute_80");
  EXPECT_EQ(loadAny({{"sm_90", cubin}}),
            "step.bnd: error: cuda:0 (Simulated H200) has compute capability "
            "9.0, the kernels are for sm_90\n"
            "step.bnd: note: compile for this device, or with PTX for an older "
            "one");
}

/// A driver that is older than the assembler may fail with any of these errors.
TEST_F(ModuleTest, PtxIsLoadedAfterAnyErrorOfTheCubin) {
  for (int refused : {int(status::InvalidImage), int(status::InvalidPtx),
                      int(status::UnsupportedPtxVersion), 300}) {
    open(("load_cubin=" + std::to_string(refused)).c_str());
    EXPECT_EQ(loadAny({{"sm_90", cubin}, {"compute_80", ptx}}), "compute_80");
  }
}

TEST_F(ModuleTest, KernelsForAnotherArchitectureAreReported) {
  open("capability=75");
  EXPECT_THAT(loadAny({{"sm_90", cubin}, {"compute_80", ptx}}),
              HasSubstr("(Simulated H200) has compute capability 7.5, the "
                        "kernels are for sm_90, compute_80"));
}

TEST_F(ModuleTest, PtxNewerThanTheDriverIsReported) {
  open("version=12020,load_ptx=222");
  EXPECT_EQ(loadAny({{"compute_80", ptx}}),
            "step.bnd: error: the driver is too old for these kernels: they "
            "are PTX of version 8.3, the driver has CUDA 12.2\n"
            "step.bnd: note: CUDA 12.3 reads it: driver 545.23.06 or newer");
}

TEST_F(ModuleTest, ErrorsOfTheDriversCompilerAreReported) {
  open("load_ptx=218");
  EXPECT_THAT(loadAny({{"compute_80", ptx}}),
              AllOf(HasSubstr("step.bnd:compute_80: error: cuModuleLoadDataEx "
                              "failed: CUDA_ERROR_INVALID_PTX (218)"),
                    HasSubstr("the driver's compiler says: ptxas fatal   : "
                              "simulated")));
}

TEST_F(ModuleTest, AMissingKernelIsReported) {
  open();
  Module kernels = load(kAdd);
  auto found = kernels.find("multiply");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().exitCode, ExitCode::Rejected);
  EXPECT_EQ(found.error().part, "kernel 'multiply'");
}

TEST(ChipTest, RunsOn) {
  struct Case {
    const char *chip;
    ComputeCapability device;
    bool runs;
  };
  for (auto [chip, device, runs] :
       {Case{"sm_80", {8, 0}, true}, Case{"sm_80", {8, 9}, true},
        Case{"sm_89", {8, 6}, false}, Case{"sm_80", {9, 0}, false},
        Case{"sm_90a", {9, 0}, true}, Case{"compute_90a", {10, 0}, false},
        Case{"compute_80", {9, 0}, true}, Case{"compute_90", {8, 9}, false},
        Case{"sm_100f", {10, 3}, true}, Case{"compute_100f", {12, 0}, false},
        Case{"sm_120", {12, 0}, true}}) {
    auto parsed = Chip::parse(chip);
    ASSERT_TRUE(parsed) << chip;
    EXPECT_EQ(parsed->format(), chip);
    EXPECT_EQ(parsed->runsOn(device), runs) << chip << device.format();
  }
  for (const char *wrong : {"", "sm_", "sm_9", "sm_90b", "90", "compute-90"})
    EXPECT_FALSE(Chip::parse(wrong)) << wrong;
}
