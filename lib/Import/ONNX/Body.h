//===- Body.h - Graphs inside of nodes --------------------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_BODY_H
#define BINADE_LIB_IMPORT_ONNX_BODY_H

#include "Node.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::binade::importer {

/// A branch of an If or the body of a loop. It is imported where it runs, each
/// time that it does.
class Body {
public:
  /// The graph that attribute `name` of `node` holds.
  Body(Node &node, StringRef name);

  /// Fails where the node has no such graph, or where its nodes have no order
  /// or are of ops that cannot be imported. To be called before anything else.
  LogicalResult readGraph();

  unsigned getNumInputs() const;
  unsigned getNumOutputs() const;

  /// Builds its ops on `inputs`; the names of nodes are behind that of the node
  /// and `label`. Returns its outputs.
  FailureOr<SmallVector<NamedValue>> unroll(ArrayRef<NamedValue> inputs,
                                            const Twine &label);

  /// The type that output `index` is declared to have: for one that no run
  /// gives.
  FailureOr<RankedTensorType> getDeclaredType(unsigned index);

private:
  /// Fails where the nodes of all bodies are too many.
  LogicalResult take(uint64_t nodes);

  Node &node;
  StringRef name;
  const ::onnx::GraphProto *graph = nullptr;
  SmallVector<unsigned> order;
  llvm::StringSet<> used;
};

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_BODY_H
