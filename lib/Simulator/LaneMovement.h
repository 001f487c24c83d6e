//===- LaneMovement.h - Ops that only move lanes ----------------*- C++ -*-===//

#ifndef BINADE_LIB_SIMULATOR_LANEMOVEMENT_H
#define BINADE_LIB_SIMULATOR_LANEMOVEMENT_H

#include "mlir/IR/Operation.h"
#include <optional>

namespace mlir::binade {

/// Returns the number of lanes of a vector; 1 for a scalar.
uint32_t countLanes(Type type);

/// A lane of an operand.
struct LaneSource {
  unsigned operand;
  uint32_t lane;
};

/// Returns the source of each lane of the result of `op`; nothing for an op
/// that computes, or whose movement is not supported.
std::optional<SmallVector<LaneSource>> findLaneSources(Operation *op);

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_LANEMOVEMENT_H
