//===- OpenDevice.h - Selection of the device -------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_OPENDEVICE_H
#define BINADE_RUNTIME_CUDA_OPENDEVICE_H

#include "Device.h"

namespace binade::cuda {

/// The device that a program runs on.
struct OpenedDevice {
  /// Null for the CPU.
  std::unique_ptr<Device> device;
  /// Why `auto` chose the CPU although there are kernels for a GPU; or empty.
  std::string note;
};

/// Opens the device of `choice` for kernels that were compiled for `chips`.
/// `auto` is the first CUDA device that runs them, else the CPU. For `cuda`, it
/// is an error (exit code 6) if the device cannot be used.
Result<OpenedDevice> openDevice(const DeviceChoice &choice,
                                const std::vector<Chip> &chips);

/// Returns the error that none of the kernels of `where` runs on the device.
Error describeUnsupported(const CudaDevice &device,
                          const std::vector<Chip> &chips, std::string where);

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_OPENDEVICE_H
