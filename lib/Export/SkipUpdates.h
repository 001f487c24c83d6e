//===- SkipUpdates.h - Steps that overflow change nothing -------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_SKIPUPDATES_H
#define BINADE_LIB_EXPORT_SKIPUPDATES_H

#include "Formats.h"

namespace mlir::binade::convert {

/// An input of a step, and the output "new.INPUT" that replaces it.
struct Update {
  std::string before, after;
};

/// What a graph that is a whole training step replaces: its inputs for which
/// there is an output of the same type that follows from gradients. None where
/// no parameter is among them, one that the loss depends on: then the graph
/// makes gradients, and running statistics perhaps.
std::vector<Update> findUpdates(const ::onnx::GraphProto &graph,
                                const PlannedNodes &nodes,
                                const llvm::BitVector &backward);

/// Lets each update give what it was given where the bool `found` is true. The
/// new nodes stand at the end of `nodes`.
void skipUpdates(ArrayRef<Update> updates, const std::string &found,
                 PlannedNodes &nodes, Names &names, ElementTypes &types);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_SKIPUPDATES_H
