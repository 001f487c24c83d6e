//===- Devices.cpp - Devices that execute a step --------------------------===//

#include "binade/Runtime/Devices.h"
#include "../Cuda/Properties.h"
#include "Arena.h"
#include "KernelObject.h"
#include "binade/Runtime/Library.h"
#include <charconv>

using namespace binade;

std::string ComputeCapability::format() const {
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string CudaDevice::format() const {
  return "cuda:" + std::to_string(index) +
         (name.empty() ? "" : " (" + name + ")");
}

DeviceList binade::listDevices() {
  DeviceList list;
  list.cores = defaultThreadCount();
  if (auto levels = supportedIsaLevels(); !levels.empty())
    list.isaLevel = levels.front();
  list.memory = availableMemory();
  Result<cuda::Driver> driver = cuda::Driver::open();
  if (!driver) {
    list.cudaError = driver.takeError();
    return list;
  }
  list.cudaVersion = driver->getVersion();
  for (int index = 0; index < driver->getDeviceCount(); ++index) {
    Result<CudaDevice> device = cuda::readProperties(*driver, index);
    if (!device) {
      list.cudaError = device.takeError();
      break;
    }
    list.cuda.push_back(*std::move(device));
  }
  return list;
}

std::optional<DeviceChoice> DeviceChoice::parse(std::string_view text) {
  if (text == "auto")
    return DeviceChoice{Auto};
  if (text == "cpu")
    return DeviceChoice{Cpu};
  if (text == "cuda")
    return DeviceChoice{Cuda};
  constexpr std::string_view prefix = "cuda:";
  if (!text.starts_with(prefix))
    return std::nullopt;
  text.remove_prefix(prefix.size());
  unsigned short index = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return DeviceChoice{Cuda, index};
}

std::optional<Chip> Chip::parse(std::string_view text) {
  constexpr std::string_view cubin = "sm_", ptx = "compute_";
  Chip chip;
  chip.isPtx = text.starts_with(ptx);
  if (!chip.isPtx && !text.starts_with(cubin))
    return std::nullopt;
  text.remove_prefix((chip.isPtx ? ptx : cubin).size());
  int number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text == "a" || text == "f")
    chip.suffix = text.front();
  else if (!text.empty())
    return std::nullopt;
  if (error != std::errc() || number < 10)
    return std::nullopt;
  chip.capability = {number / 10, number % 10};
  return chip;
}

std::string Chip::format() const {
  std::string text = isPtx ? "compute_" : "sm_";
  text += std::to_string(10 * capability.major + capability.minor);
  if (suffix)
    text += suffix;
  return text;
}

bool Chip::runsOn(ComputeCapability device) const {
  if (suffix == 'a')
    return device == capability;
  if (isPtx && !suffix)
    return device >= capability;
  return device.major == capability.major && device.minor >= capability.minor;
}

std::optional<std::size_t> binade::findChip(const std::vector<Chip> &chips,
                                            ComputeCapability device) {
  std::optional<std::size_t> best;
  auto isBetter = [](const Chip &one, const Chip &other) {
    if (one.isPtx != other.isPtx)
      return other.isPtx;
    if (one.capability != other.capability)
      return one.capability > other.capability;
    return one.suffix == 'a' && other.suffix != 'a';
  };
  for (std::size_t i = 0; i < chips.size(); ++i)
    if (chips[i].runsOn(device) && (!best || isBetter(chips[i], chips[*best])))
      best = i;
  return best;
}
