//===- OpenDevice.cpp - Selection of the device ---------------------------===//

#include "OpenDevice.h"
#include "Properties.h"

using namespace binade;
using namespace binade::cuda;

Error cuda::describeUnsupported(const CudaDevice &device,
                                const std::vector<Chip> &chips,
                                std::string where) {
  std::string names;
  for (const Chip &chip : chips)
    names += (names.empty() ? "" : ", ") + chip.format();
  return Error{std::move(where),
               device.format() + " has compute capability " +
                   device.capability.format() + ", the kernels are for " +
                   (names.empty() ? "the CPU" : names),
               ExitCode::Device}
      .withNote("compile for this device, or with PTX for an older one");
}

static Result<std::unique_ptr<Device>> open(const DeviceChoice &choice,
                                            const std::vector<Chip> &chips) {
  Result<DeviceOptions> options = DeviceOptions::fromEnvironment();
  if (!options)
    return options.takeError();
  Result<Driver> driver = Driver::open();
  if (!driver)
    return driver.takeError();
  int last = choice.kind == DeviceChoice::Auto ? driver->getDeviceCount() - 1
                                               : choice.index;
  for (int index = choice.index; true; ++index) {
    Result<CudaDevice> properties = readProperties(*driver, index);
    if (!properties)
      return properties.takeError();
    if (findChip(chips, properties->capability))
      return Device::open(*driver, index, *options);
    if (index == last)
      return describeUnsupported(*properties, chips, "cuda");
  }
}

Result<OpenedDevice> cuda::openDevice(const DeviceChoice &choice,
                                      const std::vector<Chip> &chips) {
  bool isAuto = choice.kind == DeviceChoice::Auto;
  // Without kernels for a GPU, `auto` is the CPU.
  if (choice.kind == DeviceChoice::Cpu || (isAuto && chips.empty()))
    return OpenedDevice{};
  Result<std::unique_ptr<Device>> device = open(choice, chips);
  if (device)
    return OpenedDevice{*std::move(device), {}};
  // A wrong environment variable is an error even with `auto`.
  if (!isAuto || device.error().exitCode == ExitCode::Usage)
    return device.takeError();
  return OpenedDevice{nullptr, "on the CPU: " + device.error().message};
}
