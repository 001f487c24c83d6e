//===- Records.h - CUDA kernels for plan records ----------------*- C++ -*-===//

#ifndef BINADE_LIB_PIPELINES_TARGETS_CUDA_RECORDS_H
#define BINADE_LIB_PIPELINES_TARGETS_CUDA_RECORDS_H

#include "binade/Costs/GpuCosts.h"
#include "binade/Plan/Bundle.h"
#include "binade/Target/CUDA.h"

namespace mlir::binade {

/// Returns the bytes of scratch memory that the kernel of a matmul, convolution
/// or attention needs.
uint64_t queryDeviceScratch(const ::binade::plan::Record &record,
                            const ::binade::Plan &plan);

/// Returns sizes of scratch memory with which the device's library can compute
/// a record, in ascending order; with more, it is faster. For a matmul or
/// convolution the size is that of eight partial results in f32, at most 32
/// MiB. For gradients of attention there are none if the bundle's kernels are
/// as fast, or if a part needs more than 1152 MiB. `costs` are those of the
/// chip, or null.
std::vector<uint64_t> queryLibraryScratch(const ::binade::plan::Record &record,
                                          const ::binade::Plan &plan,
                                          const GpuCosts *costs);

/// Adds compiled kernels to the bundle.
using AddKernels = std::function<LogicalResult(const CompiledGpuKernels &)>;

/// Compiles kernels for records that other targets leave to a library or the
/// runtime, and sets their names in the plan's records. Equal records share a
/// kernel.
LogicalResult compileDeviceRecords(Location location, const CudaOptions &cuda,
                                   ::binade::Bundle &bundle,
                                   const AddKernels &add);

} // namespace mlir::binade

#endif // BINADE_LIB_PIPELINES_TARGETS_CUDA_RECORDS_H
