//===- OpenDeviceTest.cpp - Choice of the device by --device --------------===//

#include "../../../lib/Runtime/Cuda/OpenDevice.h"
#include "SimulatedDevice.h"

using namespace binade;
using namespace binade::cuda;
using testing::HasSubstr;

namespace {
struct OpenDeviceTest : SimulatedDevice {
  /// Returns the device that is opened for `--device TEXT`, or "CPU" and the
  /// note, or the exit code and the error.
  std::string choose(const char *text,
                     std::vector<Chip> chips = {*Chip::parse("sm_90")}) {
    auto opened = openDevice(*DeviceChoice::parse(text), chips);
    if (!opened)
      return std::to_string(opened.error().exitCode) + " " +
             render(opened.error());
    return opened->device ? opened->device->getProperties().format()
                          : "CPU " + opened->note;
  }
};
} // namespace

TEST_F(OpenDeviceTest, AnExistingDeviceIsOpened) {
  simulate("devices=2");
  EXPECT_EQ(choose("auto"), "cuda:0 (Simulated H200)");
  EXPECT_EQ(choose("cuda"), "cuda:0 (Simulated H200)");
  EXPECT_EQ(choose("cuda:1"), "cuda:1 (Simulated H200)");
  EXPECT_EQ(choose("cpu"), "CPU ");
}

TEST_F(OpenDeviceTest, AutoFallsBackToTheCpuWithoutADevice) {
  simulate("devices=0");
  EXPECT_THAT(choose("auto"), HasSubstr("CPU on the CPU: cuInit failed: "
                                        "CUDA_ERROR_NO_DEVICE"));
  EXPECT_THAT(choose("cuda"), HasSubstr("6 cuda: error: cuInit failed"));
  EXPECT_EQ(choose("cpu"), "CPU ");
}

TEST_F(OpenDeviceTest, AMissingDeviceIsReported) {
  EXPECT_EQ(choose("cuda:3"),
            "6 cuda:3: error: there is no such device: the driver sees 1, from "
            "cuda:0\ncuda:3: note: 'binade list devices' names them");
}

TEST_F(OpenDeviceTest, AutoFallsBackToTheCpuOnAnotherArchitecture) {
  simulate("devices=2,capability=80");
  EXPECT_THAT(choose("cuda"), HasSubstr("6 cuda: error: cuda:0"));
  // The note names the last device that was tried.
  EXPECT_THAT(choose("auto"), HasSubstr("CPU on the CPU: cuda:1 (Simulated "
                                        "H200) has compute capability 8.0"));
}

TEST_F(OpenDeviceTest, KernelsOnlyForTheCpuRunOnTheCpu) {
  EXPECT_EQ(choose("auto", {}), "CPU ");
  EXPECT_THAT(choose("cuda", {}), HasSubstr("the kernels are for the CPU"));
}

TEST_F(OpenDeviceTest, AnInvalidVariableIsAnErrorAndNoFallbackToTheCpu) {
  ::setenv("BINADE_CUDA_TIMEOUT", "soon", 1);
  EXPECT_THAT(choose("auto"), HasSubstr("2 BINADE_CUDA_TIMEOUT: error:"));
  ::unsetenv("BINADE_CUDA_TIMEOUT");
}

TEST(DeviceChoiceTest, ParsesNamesOfDevices) {
  EXPECT_EQ(DeviceChoice::parse("cuda:12")->index, 12);
  for (const char *wrong :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "CUDA", "cuda:99999999"})
    EXPECT_FALSE(DeviceChoice::parse(wrong)) << wrong;
}
