//===- Graph.h - The function under construction ----------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_GRAPH_H
#define BINADE_LIB_IMPORT_ONNX_GRAPH_H

#include "binade/IR/AddPorts.h"
#include "binade/ONNX/Metadata.h"
#include "binade/ONNX/Tensors.h"

namespace mlir::binade::importer {

inline constexpr uint64_t kMaxInnerNodes = 1 << 18;

/// The value of a name: a tensor, the tensors of a sequence, or an empty
/// optional value. A default-constructed value is none of these.
struct NamedValue {
  Value tensor;
  std::optional<SmallVector<Value>> sequence;
  bool isEmpty = false;

  bool isNothing() const { return !tensor && !sequence && !isEmpty; }
  /// Returns a description of a value that is not a tensor, for errors.
  StringRef describe() const {
    return isEmpty ? "an optional value without element" : "a sequence";
  }
};

/// Returns an argument `name` whose location has the same name.
NewArgument makeArgument(StringRef name, Type type, Attribute init = {});

/// Returns the location of the function for a graph. It has the name of the
/// graph, but errors are reported for the file: users know its name, while most
/// exporters call every graph `main_graph`.
Location getGraphLoc(MLIRContext *context, StringRef name);

/// Maps ONNX names to values while `@forward` is being built.
class Graph {
public:
  Graph(const Model &model, const Metadata &metadata, TensorReader &tensors,
        const llvm::StringSet<> &used, func::FuncOp function)
      : model(model), metadata(metadata), tensors(tensors), function(function) {
    scopes.push_back({"", &used, {}});
  }

  /// The names of a subgraph. Names that are defined while the scope exists end
  /// with it; other names refer to the enclosing graphs.
  class Scope {
  public:
    /// `prefix` precedes the names of the subgraph's nodes.
    Scope(Graph &graph, const Twine &prefix, const llvm::StringSet<> &used)
        : graph(graph) {
      graph.scopes.push_back({prefix.str(), &used, {}});
    }
    ~Scope() { graph.scopes.pop_back(); }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    Graph &graph;
  };

  /// Returns a node's name, prefixed by those of the nodes in whose subgraphs
  /// it is.
  std::string getQualified(const std::string &name) const {
    return scopes.back().prefix + name;
  }

  const Model &getModel() const { return model; }
  func::FuncOp getFunction() const { return function; }
  MLIRContext *getContext() const { return model.getContext(); }

  TensorReader &getTensors() const { return tensors; }

  /// Returns the value of `name`; null if it has none yet.
  const NamedValue *find(StringRef name) const;
  void define(StringRef name, NamedValue value) {
    scopes.back().values[name] = std::move(value);
  }

  /// Returns the tensor `name`; null if the name has no value yet, or another
  /// kind of value.
  Value lookup(StringRef name) const {
    const NamedValue *found = find(name);
    return found ? found->tensor : Value();
  }
  void define(StringRef name, Value value) {
    define(name, NamedValue{value, std::nullopt});
  }

  /// Whether an imported node or an output of the graph reads `name`.
  bool isUsed(StringRef name) const {
    return scopes.back().used->contains(name);
  }

  /// Adds arguments to the function and defines their names.
  void addArguments(Role role, ArrayRef<NewArgument> arguments);

  /// Returns the seed and counter of the random number generator, an argument
  /// that the first call adds.
  Value getRng();
  /// Returns a new stream number, so that each op draws other random values.
  int64_t takeStream() { return streams++; }

  /// Returns the running statistic `name` after the updates by the nodes
  /// imported so far.
  Value getBuffer(StringRef name) const;
  /// Sets the next value of running statistic `name`; does nothing unless
  /// `name` is a buffer.
  void updateBuffer(StringRef name, Value value);
  /// Whether running variance `name` is updated with the unbiased variance of
  /// the batch.
  bool isUnbiased(StringRef name) const {
    return metadata.unbiased.contains(name);
  }

  /// Counts `elements` toward the limit for folded constants; returns false if
  /// it is exceeded.
  bool spend(int64_t elements);

  /// Counts `nodes` toward the limit for unrolled nodes of subgraphs; returns
  /// false if it is exceeded.
  bool takeNodes(uint64_t nodes);

  /// Adds results for updated buffers and the random number generator, in
  /// argument order.
  void addStateResults();

private:
  const Model &model;
  const Metadata &metadata;
  TensorReader &tensors;
  func::FuncOp function;
  struct Names {
    std::string prefix;
    const llvm::StringSet<> *used;
    llvm::StringMap<NamedValue> values;
  };
  SmallVector<Names, 1> scopes; ///< The innermost scope is last.
  llvm::StringSet<> buffers;
  llvm::StringMap<Value> updatedBuffers;
  Value rng;
  int64_t streams = 0;
  uint64_t evaluatedBytes = 0, innerNodes = 0;
};

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_GRAPH_H
