//===- Segments.h - which kernel of a launch has what -----------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_FUSION_SEGMENTS_H
#define BINADE_LIB_KERNELS_FUSION_SEGMENTS_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// A kernel of a launch, and its own operands and results of the launch.
struct LaunchSegment {
  func::FuncOp kernel;
  unsigned firstOperand, firstResult, numResults;
};

struct LaunchSegments {
  SmallVector<LaunchSegment> list;
  /// How many of the launch's results, the last ones, all segments make
  /// together: those of rank 0 of kernels over many tensors.
  unsigned numShared = 0;
  bool overMany = false;
};

LaunchSegments getSegments(LaunchOp launch);

/// The segment that reads operand `index`.
LaunchSegment findSegment(LaunchOp launch, unsigned index);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_FUSION_SEGMENTS_H
