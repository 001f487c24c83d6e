//===- DeviceFaultsTest.cpp - Failures of a device ------------------------===//

#include "SimulatedDevice.h"

using namespace binade;
using namespace binade::cuda;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {
struct DeviceFaultsTest : SimulatedDevice {
  /// Launches `count` kernels; returns the error of a launch or of the wait.
  std::string run(int count) {
    Module kernels = load(kAdd);
    DeviceMemory x = put(std::vector<float>(40)), y = put(x40),
                 z = put(std::vector<float>(40));
    auto add = kernels.find("add");
    static constexpr std::string_view ops[] = {"Add 'a'", "Add 'b'", "Add 'c'"};
    for (int i = 0; i < count; ++i)
      if (auto done =
              launch(*add, {x.get(), y.get(), z.get()}, 40, {"add", ops[i]});
          !done)
        return render(done.error());
    auto waited = device->wait();
    if (waited)
      return "";
    EXPECT_EQ(waited.error().exitCode, ExitCode::Device);
    return render(waited.error());
  }
  std::vector<float> x40 = std::vector<float>(40);
};
} // namespace

TEST_F(DeviceFaultsTest, TooLittleMemoryShowsTheLargestBuffers) {
  open("memory=1024000");
  DeviceMemory taken = *device->allocate(400 << 10);
  std::vector<NamedBytes> parts = {{"states", 100 << 10},
                                   {"activations", 700 << 10}};
  auto memory = device->allocate(800 << 10, parts);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().exitCode, ExitCode::Resources);
  EXPECT_EQ(memory.error().message,
            "needs 800.0 KiB of memory; of 1000.0 KiB, 600.0 KiB are free");
  EXPECT_THAT(memory.error().notes,
              ElementsAre("700.0 KiB for activations", "100.0 KiB for states",
                          HasSubstr("nvidia-smi"), HasSubstr("smaller batch")));
  EXPECT_FALSE(device->hasFailed());
}

TEST_F(DeviceFaultsTest, MemoryOfOtherProcessesIsReported) {
  open("allocate=1000");
  auto memory = device->allocate(2000);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().exitCode, ExitCode::Resources);
  EXPECT_TRUE(device->allocate(1000));
}

TEST_F(DeviceFaultsTest, AFailedLaunchIsNamed) {
  open("fail_launch=1");
  EXPECT_EQ(run(1), "cuda:0 (Simulated H200): error: cuStreamQuery failed: "
                    "CUDA_ERROR_LAUNCH_FAILED (719): simulated\n"
                    "cuda:0 (Simulated H200): note: while kernel 'add' (Add "
                    "'a') ran");
}

TEST_F(DeviceFaultsTest, TheFailedLaunchOfSeveralIsNamed) {
  for (auto [settings, op] : {std::pair("fail_launch=2", "Add 'a'"),
                              std::pair("fail_launch=3", "Add 'b'"),
                              std::pair("hang_launch=3", "Add 'b'")}) {
    device.reset();
    DeviceOptions options;
    options.timeout = std::chrono::milliseconds(50);
    open(settings, options);
    EXPECT_EQ(run(1), "");
    EXPECT_THAT(run(3), AllOf(HasSubstr(std::string("while kernel 'add' (") +
                                        op + ") ran"),
                              Not(HasSubstr("after it"))));
  }
}

TEST_F(DeviceFaultsTest, ADriverWithoutMarksNamesAllThatMayHaveFailed) {
  open("fail_launch=2,write_value=801");
  EXPECT_THAT(
      run(3),
      AllOf(HasSubstr("while kernel 'add' (Add 'a') ran, or one of the 2 "
                      "after it, the last of which is 'add' (Add 'c')"),
            HasSubstr("BINADE_CUDA_BLOCKING=1")));
}

TEST_F(DeviceFaultsTest, BlockingLaunchesNameTheFailedOne) {
  DeviceOptions options;
  options.blocking = true;
  open("fail_launch=2,write_value=801", options);
  EXPECT_THAT(run(3), AllOf(HasSubstr("while kernel 'add' (Add 'b') ran"),
                            Not(HasSubstr("after it"))));
}

TEST_F(DeviceFaultsTest, KernelsOfGraphsAreNamed) {
  open("fail_launch=1");
  Module kernels = load(kAdd);
  DeviceMemory x = put(x40);
  DeviceMemory y = put(x40);
  auto add = kernels.find("add");
  auto graph = Graph::capture(*device, [&]() -> Result<void> {
    if (auto done = launch(*add, {x.get(), x.get(), y.get()}, 40); !done)
      return done;
    return launch(*add, {x.get(), x.get(), y.get()}, 40, {"add", "Add 'last'"});
  });
  ASSERT_TRUE(graph);
  ASSERT_TRUE(graph->launch());
  auto waited = device->wait();
  ASSERT_FALSE(waited);
  EXPECT_THAT(
      render(waited.error()),
      AllOf(
          HasSubstr("while kernel 'add' (Add 'sum') ran, or 'add' (Add 'last') "
                    "after it"),
          HasSubstr("BINADE_CUDA_BLOCKING=1")));
}

TEST_F(DeviceFaultsTest, NothingIsCalledAfterTheContextIsLost) {
  open("fail_launch=1,fail_status=214");
  {
    Module kernels = load(kAdd);
    DeviceMemory x = put(x40);
    auto event = device->record();
    auto pinned = device->allocatePinned(64);
    ASSERT_TRUE(launch(*kernels.find("add"), {x.get(), x.get(), x.get()}, 40));
    auto waited = device->wait();
    ASSERT_FALSE(waited);
    EXPECT_THAT(
        render(waited.error()),
        AllOf(HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE"), HasSubstr("Xid")));
    for (const Result<void> &later :
         {device->wait(), device->bind(), device->fill(x.get(), {}, 4),
          launch(nullptr, {}, 1)}) {
      ASSERT_FALSE(later);
      EXPECT_EQ(render(later.error()), render(waited.error()));
    }
    EXPECT_FALSE(device->allocate(1));
    EXPECT_FALSE(device->record());
    EXPECT_FALSE(kernels.find("add"));
  }
  device.reset();
  EXPECT_EQ(countCallsAfterFailure(), 0);
}

TEST_F(DeviceFaultsTest, OutOfBoundsAccessesFail) {
  open();
  Module kernels = load(kAdd);
  // 39 elements; the kernel accesses 40.
  DeviceMemory x = put(x40), shorter = put(std::vector<float>(39));
  ASSERT_TRUE(
      launch(*kernels.find("add"), {x.get(), shorter.get(), x.get()}, 40));
  auto waited = device->wait();
  ASSERT_FALSE(waited);
  EXPECT_THAT(render(waited.error()), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST_F(DeviceFaultsTest, HostAddressesAreRejected) {
  open();
  Module kernels = load(kAdd);
  DeviceMemory x = put(x40);
  auto host = reinterpret_cast<Address>(x40.data());
  EXPECT_FALSE(device->copy(x.get(), host, 4));
  ASSERT_TRUE(launch(*kernels.find("add"), {x.get(), host, x.get()}, 40));
  EXPECT_FALSE(device->wait());
}

TEST_F(DeviceFaultsTest, AHungKernelTimesOut) {
  DeviceOptions options;
  options.timeout = std::chrono::milliseconds(50);
  open("hang_launch=2", options);
  EXPECT_THAT(run(2),
              AllOf(HasSubstr("has not finished its work for 0.05 s"),
                    HasSubstr("BINADE_CUDA_TIMEOUT"), HasSubstr("'add'")));
  EXPECT_TRUE(device->hasFailed());
}

TEST_F(DeviceFaultsTest, DestructorsDoNotWaitForAHungKernel) {
  DeviceOptions options;
  options.timeout = std::chrono::milliseconds(50);
  open("hang_launch=1", options);
  Module kernels = load(kAdd);
  {
    DeviceMemory x = put(x40);
    // An error on the host leaves the scope without a wait.
    ASSERT_TRUE(launch(*kernels.find("add"), {x.get(), x.get(), x.get()}, 40));
  }
  EXPECT_TRUE(device->hasFailed());
  float value = 0;
  EXPECT_FALSE(device->read(&value, 0, sizeof(value)));
}

TEST_F(DeviceFaultsTest, TheDeviceWorksAfterAnInvalidLaunch) {
  open();
  Module kernels = load(kAdd);
  auto wrong = device->launch(*kernels.find("add"), {{1, 1, 1}, {2048, 1, 1}},
                              {}, {"add", "Add 'sum'"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().part, "kernel 'add' (Add 'sum')");
  EXPECT_THAT(wrong.error().message, HasSubstr("CUDA_ERROR_INVALID_VALUE"));
  EXPECT_EQ(run(1), "");
}

TEST_F(DeviceFaultsTest, EnvironmentVariablesSetTheOptions) {
  ::setenv("BINADE_CUDA_TIMEOUT", "1.5", 1);
  ::setenv("BINADE_CUDA_BLOCKING", "1", 1);
  auto options = DeviceOptions::fromEnvironment();
  ASSERT_TRUE(options);
  EXPECT_EQ(options->timeout.count(), 1.5);
  EXPECT_TRUE(options->blocking);
  for (auto [name, text] : {std::pair("BINADE_CUDA_TIMEOUT", "soon"),
                            std::pair("BINADE_CUDA_TIMEOUT", "-1"),
                            std::pair("BINADE_CUDA_BLOCKING", "yes")}) {
    ::setenv(name, text, 1);
    auto wrong = DeviceOptions::fromEnvironment();
    ::unsetenv(name);
    ASSERT_FALSE(wrong) << name << text;
    EXPECT_EQ(wrong.error().exitCode, ExitCode::Usage);
    EXPECT_THAT(render(wrong.error()), AllOf(HasSubstr(name), HasSubstr(text)));
  }
}
