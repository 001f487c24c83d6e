//===- Properties.h - Properties of CUDA devices ----------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_PROPERTIES_H
#define BINADE_RUNTIME_CUDA_PROPERTIES_H

#include "Driver.h"
#include "binade/Runtime/Devices.h"

namespace binade::cuda {

/// Reads the properties of device `index`, without creating a context. It is an
/// error if there is no such device.
Result<CudaDevice> readProperties(const Driver &driver, int index);

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_PROPERTIES_H
