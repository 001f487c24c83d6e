//===- Body.h - Unrolling of subgraphs --------------------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_BODY_H
#define BINADE_LIB_IMPORT_ONNX_BODY_H

#include "Node.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::binade::importer {

/// A branch of an If or the body of a loop. It is unrolled: its nodes are
/// imported for each time that it runs.
class Body {
public:
  /// The subgraph in attribute `name` of `node`.
  Body(Node &node, StringRef name);

  /// Fails if the node has no such subgraph, or if the subgraph's nodes cannot
  /// be sorted or have ops that cannot be imported. Call this first.
  LogicalResult readGraph();

  unsigned getNumInputs() const;
  unsigned getNumOutputs() const;

  /// Imports the subgraph's nodes on `inputs` and returns its outputs. Names of
  /// the nodes are prefixed by the outer node's name and `label`.
  FailureOr<SmallVector<NamedValue>> unroll(ArrayRef<NamedValue> inputs,
                                            const Twine &label);

  /// Returns the declared type of output `index`, for a body that never runs.
  FailureOr<RankedTensorType> getDeclaredType(unsigned index);

private:
  /// Counts `nodes` toward the limit for unrolled nodes of all bodies; fails if
  /// it is exceeded.
  LogicalResult take(uint64_t nodes);

  Node &node;
  StringRef name;
  const ::onnx::GraphProto *graph = nullptr;
  SmallVector<unsigned> order;
  llvm::StringSet<> used;
};

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_BODY_H
