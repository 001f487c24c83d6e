//===- DeviceTest.cpp - Memory, kernels and graphs on a device ------------===//

#include "../../../lib/Runtime/Cuda/Device.h"
#include "SimulatedDevice.h"
#include <cstring>
#include <numeric>

using namespace binade;
using namespace binade::cuda;
using testing::HasSubstr;

namespace {
struct DeviceTest : SimulatedDevice {
  DeviceTest() : x(40), y(40) {
    std::iota(x.begin(), x.end(), 0.0f);
    std::iota(y.begin(), y.end(), 100.0f);
  }
  std::vector<float> x, y;
};
} // namespace

TEST_F(DeviceTest, HasTheDriversProperties) {
  const CudaDevice &device = open().getProperties();
  EXPECT_EQ(device.format(), "cuda:0 (Simulated H200)");
  EXPECT_EQ(device.capability, (ComputeCapability{9, 0}));
  EXPECT_EQ(device.bytes, 1u << 30);
  EXPECT_EQ(device.multiprocessors, 132);
  EXPECT_EQ(device.clockHz, 1980000000u);
  // The data sheet says 4.8 TB/s.
  EXPECT_NEAR(device.bytesPerSecond, 4.8e12, 0.2e12);
  EXPECT_EQ(device.sharedBytes, 227 << 10);
}

TEST_F(DeviceTest, AddsVectors) {
  open();
  Module kernels = load(kAdd);
  DeviceMemory dx = put(x), dy = put(y), dz = put(std::vector<float>(40));
  auto add = kernels.find("add");
  ASSERT_TRUE(add);
  ASSERT_TRUE(launch(*add, {dx.get(), dy.get(), dz.get()}, 40));
  std::vector<float> z = get(dz, 40);
  for (std::size_t i = 0; i < 40; ++i)
    EXPECT_EQ(z[i], 100.0f + 2.0f * static_cast<float>(i));
}

TEST_F(DeviceTest, TwoDevicesOfOneProcessHaveSeparateMemory) {
  open();
  DeviceMemory dx = put(x);
  {
    auto second = Device::open(*Driver::open(), 0);
    ASSERT_TRUE(second);
    auto dy = (*second)->allocate(y.size() * sizeof(float));
    ASSERT_TRUE(dy);
    ASSERT_TRUE((*second)->upload(dy->get(), y.data(), 40 * sizeof(float)));
    EXPECT_EQ(get(dx, 40), x);
    std::vector<float> found(40);
    ASSERT_TRUE((*second)->read(found.data(), dy->get(), 40 * sizeof(float)));
    EXPECT_EQ(found, y);
  }
  EXPECT_EQ(get(dx, 40), x);
}

TEST_F(DeviceTest, LaunchesCopyTheirScalarArguments) {
  open();
  Module kernels = load(kAdd);
  DeviceMemory dx = put(x);
  Address address = dx.get();
  float by = 2.5f;
  void *arguments[] = {&address, &by};
  ASSERT_TRUE(device->launch(*kernels.find("scale"), {{1, 1, 1}, {40, 1, 1}},
                             arguments, {"scale", ""}));
  by = 0; // The launch has a copy.
  EXPECT_EQ(get(dx, 40)[7], 17.5f);
}

TEST_F(DeviceTest, AReplayedGraphReadsTheCurrentMemory) {
  open();
  Module kernels = load(kAdd);
  auto pinned = device->allocatePinned(40 * sizeof(float));
  ASSERT_TRUE(pinned);
  auto *batch = static_cast<float *>(pinned->get());
  DeviceMemory dx = put(x), dy = put(y), dz = put(std::vector<float>(40));
  auto add = kernels.find("add");
  auto graph = Graph::capture(*device, [&]() -> Result<void> {
    if (auto done = device->upload(dx.get(), batch, 40 * sizeof(float)); !done)
      return done;
    return launch(*add, {dx.get(), dy.get(), dz.get()}, 40);
  });
  ASSERT_TRUE(graph) << render(graph.error());
  EXPECT_EQ(get(dz, 40)[3], 0.0f) << "a capture runs no kernel";
  for (float step : {1.0f, 2.0f}) {
    std::fill_n(batch, 40, step);
    ASSERT_TRUE(graph->launch());
    ASSERT_TRUE(device->wait());
    EXPECT_EQ(get(dz, 40)[3], 103.0f + step);
  }
}

TEST_F(DeviceTest, TheDeviceWorksAfterAFailedCapture) {
  open();
  auto graph = Graph::capture(*device, [&]() -> Result<void> {
    return Error{"step.bnd", "no", ExitCode::Rejected};
  });
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message, "no");
  // The host cannot wait for a stream that is being captured.
  auto waiting = Graph::capture(*device, [&] { return device->wait(); });
  ASSERT_FALSE(waiting);
  EXPECT_THAT(waiting.error().message,
              HasSubstr("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"));
  EXPECT_FALSE(device->hasFailed());
  EXPECT_EQ(get(put(x), 40), x);
}

TEST_F(DeviceTest, CopiesOfPinnedMemoryAreAsynchronous) {
  open();
  auto pinned = device->allocatePinned(2 * sizeof(float));
  auto *host = static_cast<float *>(pinned->get());
  DeviceMemory memory = put({0, 0});
  host[0] = 1;
  ASSERT_TRUE(device->upload(memory.get(), &host[0], sizeof(float)));
  ASSERT_TRUE(device->download(&host[1], memory.get(), sizeof(float)));
  // The stream has not reached the copy yet.
  host[0] = 2;
  host[1] = 3;
  ASSERT_TRUE(device->wait());
  EXPECT_EQ(host[1], 2.0f);
}

TEST_F(DeviceTest, CopiesAndFills) {
  open();
  DeviceMemory from = put(x), to = put(y);
  ASSERT_TRUE(device->copy(to.get(), from.get() + 4, 8));
  ASSERT_TRUE(device->fill(to.get() + 8, std::byte(0x3f), 4));
  std::vector<float> values = get(to, 4);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 2.0f);
  std::uint32_t bits;
  std::memcpy(&bits, &values[2], sizeof(bits));
  EXPECT_EQ(bits, 0x3f3f3f3fu);
  EXPECT_EQ(values[3], 103.0f);
}

TEST_F(DeviceTest, EmptyCopiesAndLaunchesSucceed) {
  open();
  Module kernels = load(kAdd);
  auto empty = device->allocate(0);
  ASSERT_TRUE(empty);
  EXPECT_TRUE(device->upload(empty->get(), nullptr, 0));
  EXPECT_TRUE(device->download(nullptr, empty->get(), 0));
  EXPECT_TRUE(launch(*kernels.find("add"), {0, 0, 0}, 0));
  EXPECT_TRUE(device->wait());
}

TEST_F(DeviceTest, MemoryIsFreed) {
  open();
  std::uint64_t before = device->getMemory()->free;
  {
    DeviceMemory memory = put(x);
    DeviceMemory moved = std::move(memory);
    EXPECT_EQ(device->getMemory()->free, before - 160);
  }
  EXPECT_EQ(device->getMemory()->free, before);
}

TEST_F(DeviceTest, EventsMeasureTime) {
  open();
  auto from = device->record(), to = device->record();
  ASSERT_TRUE(from && to);
  ASSERT_TRUE(device->wait());
  auto elapsed = device->measure(*from, *to);
  ASSERT_TRUE(elapsed);
  EXPECT_GE(elapsed->count(), 0.0);
  EXPECT_LT(elapsed->count(), 1.0);
}

TEST_F(DeviceTest, LargeSharedMemoryIsRequested) {
  open();
  Module kernels = load(kAdd);
  DeviceMemory dx = put(x), dy = put(y), dz = put(y);
  Address addresses[] = {dx.get(), dy.get(), dz.get()};
  void *arguments[] = {&addresses[0], &addresses[1], &addresses[2]};
  LaunchShape shape = {{2, 1, 1}, {32, 1, 1}, 64 << 10};
  Label label = {"add", "Add 'sum'"};
  EXPECT_FALSE(device->launch(*kernels.find("add"), shape, arguments, label));
  EXPECT_TRUE(
      device->launch(*kernels.find("add", 64 << 10), shape, arguments, label));
  EXPECT_FALSE(kernels.find("add", 1 << 20));
}
