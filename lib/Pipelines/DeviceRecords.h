//===- DeviceRecords.h - what a device computes for records -----*- C++ -*-===//

#ifndef BINADE_LIB_PIPELINES_DEVICERECORDS_H
#define BINADE_LIB_PIPELINES_DEVICERECORDS_H

#include "binade/Plan/Plan.h"
#include "binade/Target/CUDA.h"

namespace mlir::binade {

/// Of a record, what a kernel for it depends on. Strides and alignments are the
/// plan's.
GpuProduct getProduct(const ::binade::Plan &plan,
                      const ::binade::plan::Matmul &matmul);
GpuConvolution getConvolution(const ::binade::Plan &plan,
                              const ::binade::plan::Convolution &convolution);
GpuAttention getAttention(const ::binade::Plan &plan,
                          const ::binade::plan::Attention &attention);
GpuCopy getCopy(const ::binade::Plan &plan, const ::binade::plan::Copy &copy);

/// The scratch memory that the kernel of a product or convolution wants.
uint64_t queryDeviceScratch(const ::binade::plan::Record &record,
                            const ::binade::Plan &plan);

/// What the device's library may have for a product or convolution: room for
/// eight parts of its sums in f32, at most 32 MiB.
uint64_t queryLibraryScratch(const ::binade::plan::Record &record,
                             const ::binade::Plan &plan);

} // namespace mlir::binade

#endif // BINADE_LIB_PIPELINES_DEVICERECORDS_H
