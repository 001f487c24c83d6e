//===- Graph.h - The function under construction ----------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_GRAPH_H
#define BINADE_LIB_IMPORT_ONNX_GRAPH_H

#include "binade/IR/AddPorts.h"
#include "binade/ONNX/Metadata.h"
#include "binade/ONNX/Tensors.h"

namespace mlir::binade::importer {

inline constexpr uint64_t kMaxInnerNodes = 1 << 18;

/// What a name stands for: one tensor, the tensors of a sequence, or an
/// optional value that is not there. Nothing is none of them.
struct NamedValue {
  Value tensor;
  std::optional<SmallVector<Value>> sequence;
  bool isEmpty = false;

  bool isNothing() const { return !tensor && !sequence && !isEmpty; }
  /// What is no tensor, for errors.
  StringRef describe() const {
    return isEmpty ? "an optional value without element" : "a sequence";
  }
};

/// An argument that is called `name` where errors are about it, too.
NewArgument makeArgument(StringRef name, Type type, Attribute init = {});

/// Values by ONNX name while `@forward` is being built.
class Graph {
public:
  Graph(const Model &model, const Metadata &metadata, TensorReader &tensors,
        const llvm::StringSet<> &used, func::FuncOp function)
      : model(model), metadata(metadata), tensors(tensors), function(function) {
    scopes.push_back({"", &used, {}});
  }

  /// While it lives, names are those of a graph inside of a node: what it
  /// defines ends with it, and what it does not define is the outer graph's.
  class Scope {
  public:
    /// `prefix` stands before the names of nodes.
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

  /// A node's name behind those of the nodes that it is inside of.
  std::string getQualified(const std::string &name) const {
    return scopes.back().prefix + name;
  }

  const Model &getModel() const { return model; }
  func::FuncOp getFunction() const { return function; }
  MLIRContext *getContext() const { return model.getContext(); }

  TensorReader &getTensors() const { return tensors; }

  /// Null for a name that has no value (yet).
  const NamedValue *find(StringRef name) const;
  void define(StringRef name, NamedValue value) {
    scopes.back().values[name] = std::move(value);
  }

  /// Null for a name that is no tensor (yet).
  Value lookup(StringRef name) const {
    const NamedValue *found = find(name);
    return found ? found->tensor : Value();
  }
  void define(StringRef name, Value value) {
    define(name, NamedValue{value, std::nullopt});
  }

  /// Whether a node that is imported, or the graph's outputs, read `name`.
  bool isUsed(StringRef name) const {
    return scopes.back().used->contains(name);
  }

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

  /// Counts `nodes` more of graphs inside of nodes, each as often as it runs;
  /// false when that is too many.
  bool takeNodes(uint64_t nodes);

  /// Adds results for updated buffers and the generator, in argument order.
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
  SmallVector<Names, 1> scopes; ///< The innermost last.
  llvm::StringSet<> buffers;
  llvm::StringMap<Value> updatedBuffers;
  Value rng;
  int64_t streams = 0;
  uint64_t evaluatedBytes = 0, innerNodes = 0;
};

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_GRAPH_H
