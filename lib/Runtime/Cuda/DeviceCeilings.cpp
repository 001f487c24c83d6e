//===- DeviceCeilings.cpp - Peak rates of a CUDA device -------------------===//

#include "DeviceCeilings.h"
#include "binade/Container/Numbers.h"
#include <algorithm>

using namespace binade;
using namespace binade::cuda;

namespace {
/// Peak operations of a multiprocessor per cycle: f32 multiply-adds outside of
/// tensor cores, and dense tensor core operations with sums in f32.
struct Peak {
  ComputeCapability from; ///< The first capability that the row applies to.
  /// 0 if there is no such instruction.
  double f32, tf32, half, fp8;
};
} // namespace

// From NVIDIA's whitepapers of A100, A40, L40S, H100, B200 and RTX PRO 6000
// Blackwell. Tensor cores of GeForce chips with the same capability have half
// of these rates.
static constexpr Peak kPeaks[] = {
    {{8, 0}, 128, 1024, 2048, 0},      {{8, 6}, 256, 512, 1024, 0},
    {{8, 9}, 256, 512, 1024, 2048},    {{9, 0}, 256, 2048, 4096, 8192},
    {{10, 0}, 256, 4096, 8192, 16384}, {{12, 0}, 256, 512, 1024, 2048},
};

static std::string describe(double perSecond, const char *unit,
                            const std::string &how) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.0f %s: ", perSecond / 1e9, unit);
  return text + how;
}

static void addPeaks(const CudaDevice &device, Ceilings &ceilings) {
  auto next = std::upper_bound(
      std::begin(kPeaks), std::end(kPeaks), device.capability,
      [](ComputeCapability own, const Peak &peak) { return own < peak.from; });
  if (next == std::begin(kPeaks) || device.clockHz == 0)
    return;
  const Peak &peak = *std::prev(next);
  double cycles = static_cast<double>(device.clockHz) * device.multiprocessors;
  auto add = [&](double &ceiling, double operations, std::string_view format) {
    ceiling = operations * cycles;
    ceilings.sources.push_back(describe(
        ceiling, "Gflop/s",
        std::string(format) + ", " + formatNumber(operations) +
            " in a cycle of each of " + std::to_string(device.multiprocessors) +
            " multiprocessors at " + std::to_string(device.clockHz / 1000000) +
            " MHz"));
  };
  for (auto [dtype, operations] :
       {std::pair(DType::F32, peak.f32), std::pair(DType::F16, peak.half),
        std::pair(DType::BF16, peak.half), std::pair(DType::F8_E4M3, peak.fp8),
        std::pair(DType::F8_E5M2, peak.fp8)})
    if (operations > 0)
      add(ceilings.flopsPerSecond[dtype], operations, name(dtype));
  add(ceilings.tf32FlopsPerSecond, peak.tf32, "TF32");
}

Result<Ceilings> cuda::measureCeilings(Device &device) {
  const CudaDevice &properties = device.getProperties();
  Ceilings ceilings;
  addPeaks(properties, ceilings);
  Result<Device::Memory> memory = device.getMemory();
  if (!memory)
    return memory.takeError();
  // Several times the cache size, if that much memory is free.
  std::uint64_t bytes = std::min<std::uint64_t>(
      std::max<std::uint64_t>(4 * properties.cacheBytes, 64 << 20),
      memory->free / 4);
  Result<DeviceMemory> from = device.allocate(bytes),
                       to = device.allocate(bytes);
  for (Result<DeviceMemory> *part : {&from, &to})
    if (!*part)
      return part->takeError();
  double best = 0;
  constexpr int repetitions = 5;
  for (int i = 0; i < repetitions; ++i) {
    Result<Event> begin = device.record();
    if (!begin)
      return begin.takeError();
    if (auto done = device.copy(to->get(), from->get(), bytes); !done)
      return done.takeError();
    Result<Event> end = device.record();
    if (!end)
      return end.takeError();
    if (auto done = device.wait(); !done)
      return done.takeError();
    auto time = device.measure(*begin, *end);
    if (!time)
      return time.takeError();
    if (time->count() > 0)
      best = std::max(best, 2.0 * static_cast<double>(bytes) / time->count());
  }
  ceilings.bytesPerSecond = best;
  ceilings.sources.push_back(
      describe(best, "GB/s", "measured, a copy of " + formatBytes(bytes)));
  return ceilings;
}
