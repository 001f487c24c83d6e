//===- ReduceOps.h - fewer ops for as long as a failure shows ---*- C++ -*-===//

#ifndef BINADE_REDUCE_REDUCEOPS_H
#define BINADE_REDUCE_REDUCEOPS_H

namespace mlir::binade {

/// Registers `binade-reduce-ops`.
void registerReduceOps();

} // namespace mlir::binade

#endif // BINADE_REDUCE_REDUCEOPS_H
