//===- OpenDevice.h - The device that a step runs on ------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_OPENDEVICE_H
#define BINADE_RUNTIME_CUDA_OPENDEVICE_H

#include "Device.h"

namespace binade::cuda {

struct OpenedDevice {
  /// Null for the CPU.
  std::unique_ptr<Device> device;
  /// Why it is not another, where someone may have expected that; or empty.
  std::string note;
};

/// What `choice` means for kernels that were compiled for `chips`. `auto` takes
/// the first CUDA device that runs them, else the CPU; for `cuda` what is in
/// the way is an error, of exit code 6.
Result<OpenedDevice> openDevice(const DeviceChoice &choice,
                                const std::vector<Chip> &chips);

/// None of the kernels of `where` runs on the device: says what is for what.
Error describeUnsupported(const CudaDevice &device,
                          const std::vector<Chip> &chips, std::string where);

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_OPENDEVICE_H
