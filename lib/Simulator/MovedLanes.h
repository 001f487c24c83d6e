//===- MovedLanes.h - ops that only move lanes ------------------*- C++ -*-===//

#ifndef BINADE_LIB_SIMULATOR_MOVEDLANES_H
#define BINADE_LIB_SIMULATOR_MOVEDLANES_H

#include "mlir/IR/Operation.h"
#include <optional>

namespace mlir::binade {

/// Of a vector; 1 for a number.
uint32_t countLanes(Type type);

struct MovedLane {
  unsigned operand;
  uint32_t lane;
};

/// What becomes each lane of the result of `op`; nothing for an op that
/// computes, or that moves lanes in a way that is not simulated.
std::optional<SmallVector<MovedLane>> findMovedLanes(Operation *op);

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_MOVEDLANES_H
