//===- Properties.h - What a driver says of its devices ---------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_PROPERTIES_H
#define BINADE_RUNTIME_CUDA_PROPERTIES_H

#include "Driver.h"
#include "binade/Runtime/Devices.h"

namespace binade::cuda {

/// Needs no context. An error where there is no device of this number.
Result<CudaDevice> readProperties(const Driver &driver, int index);

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_PROPERTIES_H
