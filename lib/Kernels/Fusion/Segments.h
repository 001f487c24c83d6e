//===- Segments.h - Kernels of a launch -------------------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_FUSION_SEGMENTS_H
#define BINADE_LIB_KERNELS_FUSION_SEGMENTS_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// A kernel of a launch, with its operands and results among the launch's.
struct LaunchSegment {
  func::FuncOp kernel;
  unsigned firstOperand, firstResult, numResults;
};

/// The segments of a launch.
struct LaunchSegments {
  SmallVector<LaunchSegment> list;
  /// Number of results, at the end of the list, that all segments compute
  /// together: those of rank 0 of multi-tensor kernels.
  unsigned numShared = 0;
  bool isMultiTensor = false;
};

LaunchSegments getSegments(LaunchOp launch);

/// Returns the segment that reads operand `index`.
LaunchSegment findSegment(LaunchOp launch, unsigned index);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_FUSION_SEGMENTS_H
