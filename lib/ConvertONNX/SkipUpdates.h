//===- SkipUpdates.h - Skipping of updates on overflow ----------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_SKIPUPDATES_H
#define BINADE_LIB_CONVERTONNX_SKIPUPDATES_H

#include "Formats.h"

namespace mlir::binade::convert {

/// An input of a step, and the output "new.INPUT" that replaces it.
struct Update {
  std::string before, after;
};

/// Returns the updates of a graph that is a whole training step: inputs with an
/// output of the same type that depends on gradients. Empty if the loss depends
/// on none of these inputs: then the graph computes gradients (and perhaps
/// running statistics) but updates no parameter.
std::vector<Update> findUpdates(const ::onnx::GraphProto &graph,
                                const PlannedNodes &nodes,
                                const llvm::BitVector &backward);

/// Makes each update return its input if the bool `found` is true. The new
/// nodes are at the end of `nodes`.
void skipUpdates(ArrayRef<Update> updates, const std::string &found,
                 PlannedNodes &nodes, UniqueNames &names, ElementTypes &types);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_SKIPUPDATES_H
