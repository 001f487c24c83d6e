//===- DeviceCeilings.h - What a CUDA device can do -------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_DEVICECEILINGS_H
#define BINADE_RUNTIME_CUDA_DEVICECEILINGS_H

#include "Device.h"
#include "binade/Runtime/Profile.h"

namespace binade::cuda {

/// The bandwidth of a copy, which is measured, and peaks of arithmetic from
/// what is known of its architecture.
Result<Ceilings> measureCeilings(Device &device);

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_DEVICECEILINGS_H
