//===- SimulatedDevice.h - Tests on a simulated GPU -------------*- C++ -*-===//

#ifndef BINADE_TEST_CUDA_SIMULATEDDEVICE_H
#define BINADE_TEST_CUDA_SIMULATEDDEVICE_H

#include "../../../lib/Runtime/Cuda/Graph.h"
#include "../../../lib/Runtime/Cuda/Module.h"
#include "../Container/TemporaryDirectory.h"
#include "binade/Container/Sha256.h"
#include <cstdlib>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace binade::cuda {

/// Opens a simulated GPU; Simulated/Simulated.h lists the settings.
struct SimulatedDevice : testing::Test {
  SimulatedDevice() {
    simulate("");
    ::setenv("BINADE_SIMULATED_KERNELS", folder.str().c_str(), 1);
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }

  /// Sets the settings of the drivers that are opened from now on.
  static void simulate(const char *settings) {
    ::setenv("BINADE_SIMULATED_CUDA", settings, 1);
  }

  Device &open(const char *settings = "", DeviceOptions options = {}) {
    simulate(settings);
    auto opened = Device::open(*Driver::open(), 0, options);
    EXPECT_TRUE(opened) << render(opened.error());
    device = *std::move(opened);
    return *device;
  }

  /// Makes the simulator run the kernels in `mlir` for the module `image`.
  void define(const std::string &image, const std::string &mlir) const {
    test::writeFile(folder / (sha256(image) + ".mlir"), mlir);
  }

  /// Loads the kernels in `mlir`.
  Module load(const std::string &mlir) {
    std::string image = "image of " + mlir;
    define(image, mlir);
    auto loaded = Module::load(
        *device, std::array{KernelImage{*Chip::parse("sm_90"), bytesOf(image)}},
        "step.bnd");
    EXPECT_TRUE(loaded) << render(loaded.error());
    return *std::move(loaded);
  }

  static std::span<const std::byte> bytesOf(const std::string &text) {
    return std::as_bytes(std::span(text));
  }

  /// Returns device memory that holds `values`.
  DeviceMemory put(const std::vector<float> &values) {
    auto memory = device->allocate(values.size() * sizeof(float));
    EXPECT_TRUE(memory);
    EXPECT_TRUE(device->upload(memory->get(), values.data(),
                               values.size() * sizeof(float)));
    return *std::move(memory);
  }

  std::vector<float> get(const DeviceMemory &memory, std::size_t count) {
    std::vector<float> values(count);
    EXPECT_TRUE(
        device->read(values.data(), memory.get(), count * sizeof(float)));
    return values;
  }

  /// Launches a kernel whose arguments are `memories`, with at least `count`
  /// threads in blocks of 32.
  Result<void> launch(CUfunc_st *kernel, std::vector<Address> memories,
                      unsigned count,
                      const Label &label = {"add", "Add 'sum'"}) {
    std::vector<void *> arguments;
    for (Address &address : memories)
      arguments.push_back(&address);
    return device->launch(kernel, {{(count + 31) / 32, 1, 1}, {32, 1, 1}},
                          arguments, label);
  }

  static int countCallsAfterFailure() {
    void *library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<int (*)()>(
        ::dlsym(library, "simulatedCallsAfterFailure"))();
  }

  test::TemporaryDirectory folder;
  std::unique_ptr<Device> device;
};

/// Kernels of 40 elements: `add` computes z = x + y, `scale` x = x * by.
inline constexpr const char *kAdd = R"(gpu.module @kernels {
  gpu.func @add(%x: memref<40xf32>, %y: memref<40xf32>, %z: memref<40xf32>)
      kernel {
    %n = arith.constant 40 : index
    %thread = gpu.thread_id x
    %block = gpu.block_id x
    %size = gpu.block_dim x
    %first = arith.muli %block, %size : index
    %i = arith.addi %first, %thread : index
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %a = memref.load %x[%i] : memref<40xf32>
      %b = memref.load %y[%i] : memref<40xf32>
      %c = arith.addf %a, %b : f32
      memref.store %c, %z[%i] : memref<40xf32>
    }
    gpu.return
  }
  gpu.func @scale(%x: memref<40xf32>, %by: f32) kernel {
    %i = gpu.thread_id x
    %a = memref.load %x[%i] : memref<40xf32>
    %b = arith.mulf %a, %by : f32
    memref.store %b, %x[%i] : memref<40xf32>
    gpu.return
  }
})";

} // namespace binade::cuda

#endif // BINADE_TEST_CUDA_SIMULATEDDEVICE_H
