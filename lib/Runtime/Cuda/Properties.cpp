//===- Properties.cpp - Properties of CUDA devices ------------------------===//

#include "Properties.h"
#include <array>

using namespace binade;
using namespace binade::cuda;

Result<CudaDevice> cuda::readProperties(const Driver &driver, int index) {
  if (index < 0 || index >= driver.getDeviceCount())
    return Error{"cuda:" + std::to_string(index),
                 "there is no such device: the driver sees " +
                     std::to_string(driver.getDeviceCount()) + ", from cuda:0",
                 ExitCode::Device}
        .withNote("'binade list devices' names them");
  const DriverTable &functions = driver.functions;
  CudaDevice device;
  device.index = index;
  int handle = 0;
  if (auto done = driver.call(functions.deviceGet, &handle, index); !done)
    return done.takeError();
  std::array<char, 256> name = {};
  if (auto done = driver.call(functions.deviceGetName, name.data(),
                              static_cast<int>(name.size()), handle);
      !done)
    return done.takeError();
  name.back() = 0;
  device.name = printable(name.data());
  std::size_t bytes = 0;
  if (auto done = driver.call(functions.deviceTotalMem, &bytes, handle); !done)
    return done.takeError();
  device.bytes = bytes;
  // Returns 0 for attributes that this driver does not know.
  auto get = [&](int attribute) {
    int value = 0;
    return functions.deviceGetAttribute.address(&value, attribute, handle)
               ? 0
               : value;
  };
  constexpr double kilo = 1000, bitsPerByte = 8, transfersPerCycle = 2;
  device.capability = {get(attribute::ComputeCapabilityMajor),
                       get(attribute::ComputeCapabilityMinor)};
  device.multiprocessors = get(attribute::MultiprocessorCount);
  device.clockHz = static_cast<std::uint64_t>(get(attribute::ClockRate)) * 1000;
  device.bytesPerSecond = get(attribute::MemoryClockRate) * kilo *
                          transfersPerCycle *
                          get(attribute::GlobalMemoryBusWidth) / bitsPerByte;
  device.cacheBytes = static_cast<std::uint64_t>(get(attribute::L2CacheSize));
  device.sharedBytes = get(attribute::MaxSharedMemoryPerBlockOptin);
  return device;
}
