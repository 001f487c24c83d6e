//===- Records.h - kernels of a CUDA device for records ---------*- C++ -*-===//

#ifndef BINADE_LIB_PIPELINES_TARGETS_CUDA_RECORDS_H
#define BINADE_LIB_PIPELINES_TARGETS_CUDA_RECORDS_H

#include "binade/Plan/Bundle.h"
#include "binade/Target/CUDA.h"

namespace mlir::binade {

/// The scratch memory that the kernel of a product or convolution wants.
uint64_t queryDeviceScratch(const ::binade::plan::Record &record,
                            const ::binade::Plan &plan);

/// What the device's library may have for a product or convolution: room for
/// eight parts of its sums in f32, at most 32 MiB.
uint64_t queryLibraryScratch(const ::binade::plan::Record &record,
                             const ::binade::Plan &plan);

/// Adds compiled kernels to the bundle.
using AddKernels = std::function<LogicalResult(const CompiledGpuKernels &)>;

/// Kernels for what other targets give to a library or the runtime. Each record
/// of the plan gets the name of one; equal records share it.
LogicalResult compileDeviceRecords(Location location, const CudaOptions &cuda,
                                   ::binade::Bundle &bundle,
                                   const AddKernels &add);

} // namespace mlir::binade

#endif // BINADE_LIB_PIPELINES_TARGETS_CUDA_RECORDS_H
