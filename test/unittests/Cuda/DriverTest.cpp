//===- DriverTest.cpp - Machines without a usable driver ------------------===//

#include "SimulatedDevice.h"

using namespace binade;
using namespace binade::cuda;
using testing::HasSubstr;

namespace {
struct DriverTest : SimulatedDevice {
  /// Returns the error of opening the driver; empty if it succeeds.
  static std::string open(const char *settings,
                          const char *library = "libcuda.so.1") {
    simulate(settings);
    auto driver = Driver::open(library);
    if (driver)
      return "";
    EXPECT_EQ(driver.error().exitCode, ExitCode::Device);
    return render(driver.error());
  }
};
} // namespace

TEST_F(DriverTest, Opens) {
  EXPECT_EQ(open("devices=2,version=12080"), "");
  auto driver = Driver::open();
  EXPECT_EQ(driver->getDeviceCount(), 2);
  EXPECT_EQ(formatCudaVersion(driver->getVersion()), "12.8");
}

TEST_F(DriverTest, AMissingLibraryIsReported) {
  EXPECT_THAT(open("", "libcuda-missing.so.1"),
              testing::StartsWith("cuda: error: the driver cannot be opened: "
                                  "libcuda-missing.so.1: cannot open shared "
                                  "object file"));
}

TEST_F(DriverTest, ALibraryWithoutTheFunctionsIsReported) {
  EXPECT_THAT(open("", "libm.so.6"), HasSubstr("libm.so.6 has no function cu"));
}

TEST_F(DriverTest, AnOldDriverIsReported) {
  EXPECT_EQ(open("version=11040"),
            "cuda: error: the driver is too old: it has CUDA 11.4\n"
            "cuda: note: CUDA 11.8 (driver 520.61.05) or newer is needed");
}

TEST_F(DriverTest, AMissingDeviceIsReported) {
  EXPECT_THAT(open("devices=0"),
              HasSubstr("cuInit failed: CUDA_ERROR_NO_DEVICE (100)"));
}

TEST_F(DriverTest, HiddenDevicesAreReported) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_THAT(open(""), HasSubstr("CUDA_VISIBLE_DEVICES is ''"));
}

TEST_F(DriverTest, AFailedInitializationIsReported) {
  EXPECT_THAT(open("init=34"), HasSubstr("stub for linking"));
  EXPECT_THAT(open("init=803"), HasSubstr("restart the machine"));
  EXPECT_THAT(open("init=802"), HasSubstr("fabricmanager"));
  EXPECT_THAT(open("init=12345"), HasSubstr("does not name (12345)"));
}
