//===- Graph.h - The function under construction ----------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_GRAPH_H
#define BINADE_LIB_IMPORT_ONNX_GRAPH_H

#include "Metadata.h"
#include "Tensors.h"
#include "binade/IR/AddPorts.h"

namespace mlir::binade::importer {

/// An argument that is called `name` where errors are about it, too.
NewArgument makeArgument(StringRef name, Type type, Attribute init = {});

/// Values by ONNX name while `@forward` is being built.
class Graph {
public:
  Graph(const Model &model, const Metadata &metadata, TensorReader &tensors,
        const llvm::StringSet<> &used, func::FuncOp function)
      : model(model), metadata(metadata), tensors(tensors), used(used),
        function(function) {}

  const Model &getModel() const { return model; }
  func::FuncOp getFunction() const { return function; }
  MLIRContext *getContext() const { return model.getContext(); }

  TensorReader &getTensors() const { return tensors; }

  /// Null for a name that has no value (yet).
  Value lookup(StringRef name) const { return values.lookup(name); }
  void define(StringRef name, Value value) { values[name] = value; }

  /// The tensors of a name that is a sequence; null for another.
  const SmallVector<Value> *lookupSequence(StringRef name) const {
    auto found = sequences.find(name);
    return found == sequences.end() ? nullptr : &found->second;
  }
  void defineSequence(StringRef name, ArrayRef<Value> tensors) {
    sequences[name] = SmallVector<Value>(tensors);
  }

  /// Whether a node that is imported, or the graph's outputs, read `name`.
  bool isUsed(StringRef name) const { return used.contains(name); }

  /// Makes arguments of the function, each under its name.
  void addArguments(Role role, ArrayRef<NewArgument> arguments);

  /// Seed and counter of random numbers, an argument from the first call on.
  Value getRng();
  /// A number of its own for every op that draws.
  int64_t takeStream() { return streams++; }

  /// The running statistic `name` as the nodes so far have left it, and its
  /// next value. What is no buffer has no next value.
  Value getBuffer(StringRef name) const;
  void updateBuffer(StringRef name, Value value);
  /// Whether running variance `name` advances with the unbiased variance.
  bool isUnbiased(StringRef name) const {
    return metadata.unbiased.contains(name);
  }

  /// Counts `elements` more evaluated elements; false when that is too many.
  bool spend(int64_t elements);

  /// Adds results for updated buffers and the generator, in argument order.
  void addStateResults();

private:
  const Model &model;
  const Metadata &metadata;
  TensorReader &tensors;
  const llvm::StringSet<> &used;
  func::FuncOp function;
  llvm::StringMap<Value> values;
  llvm::StringMap<SmallVector<Value>> sequences;
  llvm::StringSet<> buffers;
  llvm::StringMap<Value> updatedBuffers;
  Value rng;
  int64_t streams = 0;
  uint64_t evaluatedBytes = 0;
};

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_GRAPH_H
