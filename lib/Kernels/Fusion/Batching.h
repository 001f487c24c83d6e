//===- Batching.h - What small launches are ---------------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_FUSION_BATCHING_H
#define BINADE_LIB_KERNELS_FUSION_BATCHING_H

#include <cstdint>

namespace mlir::binade {

/// Bytes that a launch moves in about the time that it takes to start and end.
inline constexpr uint64_t kSmallLaunch = uint64_t(32) << 20;
/// Elements up to which one work item reduces a tensor: its kernel needs no
/// workspace.
inline constexpr int64_t kOneItem = 32768;

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_FUSION_BATCHING_H
