//===- DeviceCeilings.h - Peak rates of a CUDA device -----------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_DEVICECEILINGS_H
#define BINADE_RUNTIME_CUDA_DEVICECEILINGS_H

#include "Device.h"
#include "binade/Runtime/Profile.h"

namespace binade::cuda {

/// Measures the bandwidth of a copy on the device. Arithmetic peaks come from a
/// table of architectures.
Result<Ceilings> measureCeilings(Device &device);

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_DEVICECEILINGS_H
