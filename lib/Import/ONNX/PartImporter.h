//===- PartImporter.h - What can be imported of an ONNX file ----*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_PARTIMPORTER_H
#define BINADE_LIB_IMPORT_ONNX_PARTIMPORTER_H

#include "Dimensions.h"
#include "Graph.h"
#include "Initializers.h"
#include "binade/Import/ONNX/Import.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/SetVector.h"
#include <deque>

namespace mlir::binade::importer {

/// One import of what can be imported, in the order of its steps.
class PartImporter {
public:
  /// `leftOut` names the nodes, and has what was inferred of their types.
  PartImporter(Model &model, const ImportOptions &options, LeftOut &leftOut);

  /// Looks at what the user and the metadata say; that has to be right.
  LogicalResult prepare();
  FailureOr<OwningOpRef<ModuleOp>> run();

private:
  /// A graph of the file, at any depth, and the types that are known in it.
  struct Level {
    Level(const ::onnx::GraphProto &graph, const ::onnx::GraphProto *inferred);

    /// Null where nothing is known.
    const ::onnx::ValueInfoProto *find(StringRef name) const {
      return types.lookup(name);
    }

    const ::onnx::GraphProto &graph;
    const ::onnx::GraphProto *inferred;
    SmallVector<unsigned> order;
    llvm::StringSet<> used;
    llvm::StringMap<const ::onnx::ValueInfoProto *> types;
  };
  /// What is known of a value: a tensor, or the elements of a sequence.
  struct Known {
    RankedTensorType tensor = {};
    std::optional<SmallVector<RankedTensorType>> sequence = std::nullopt;
  };
  using Types = SmallVector<Known>;

  // PartNodes.cpp: one node.
  std::optional<std::string> importNode(Graph &graph, const Level &level,
                                        unsigned index);
  void importNodes(Graph &graph, const Level &level);
  void findRanks(Graph &graph, const ::onnx::NodeProto &node);
  void findHandedOn(Graph &graph, const ::onnx::NodeProto &node);
  void findWide(Graph &graph, const ::onnx::NodeProto &node, Operation *last);
  /// What `name` stands for has a reader that is not imported.
  void keep(const Graph &graph, StringRef name);
  void leaveOut(Graph &graph, const Level &level, const ::onnx::NodeProto &node,
                ArrayRef<Known> made);
  LeftOut::Node &getFound(const ::onnx::NodeProto &node) {
    return leftOut.nodes[places.lookup(&node)];
  }

  bool isAssumed(const ::onnx::NodeProto &node) const;
  bool isWrong(DiagnosticCollector &errors, Graph &graph,
               const ::onnx::NodeProto &node) const;

  // PartGraphs.cpp: graphs inside of nodes.
  Types importGraphs(Graph &graph, const Level &level, unsigned index);
  Types importGraph(Graph &graph, Level &level, const ::onnx::NodeProto &node,
                    const Twine &prefix);
  void defineInputs(Graph &graph, const Level &level,
                    const ::onnx::NodeProto &node);

  // ImportPart.cpp: the function around them.
  void dropUnknownTensors(Level &level);
  LogicalResult classify(const Level &level, Initializers &initializers);
  void createFunction();
  void addInputs(Graph &graph);
  llvm::StringSet<> findUpdatedTypes() const;
  /// The type that `value` is said to have. Lengths that are not known are
  /// those of `like`, if it has as many axes, or assumed. Null for what is no
  /// tensor of known rank and element type.
  RankedTensorType getType(const ::onnx::ValueInfoProto &value,
                           RankedTensorType like = {});
  /// Gives `name` a value that stands for what is not imported.
  void addStandIn(Graph &graph, const std::string &name, const Known &type);
  Value makeStandIn(const std::string &name, RankedTensorType type);
  static Known getKnown(const NamedValue *value);
  void addResults(Graph &graph);
  void addStandIns();
  bool hasLengths(const ::onnx::ValueInfoProto &value) const;
  LogicalResult checkDeclared(Graph &graph);

  Model &model;
  const ::onnx::GraphProto &file;
  const ImportOptions &options;
  LeftOut &leftOut;
  TensorReader tensors;
  Metadata metadata;
  Dimensions dimensions;
  /// Where nodes stand in `leftOut.nodes`.
  llvm::DenseMap<const ::onnx::NodeProto *, unsigned> places;
  std::deque<Level> levels;
  /// Values whose lengths, or those of what they depend on, are assumed: then a
  /// contradiction may be one with the assumption.
  llvm::StringSet<> assumed;
  llvm::StringSet<> assumedLengths;
  std::vector<Diagnostic> wrong; ///< With the file.
  llvm::SetVector<Value> read;   ///< By nodes that are left out.
  /// What those make, until it is arguments of the function.
  Block standIns;
  SmallVector<NewArgument> arguments;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
};

/// Calls `visit` for the nodes of `graph` and, after each, for those of graphs
/// inside of it, with their depth.
void forEachNode(
    const ::onnx::GraphProto &graph,
    function_ref<void(const ::onnx::NodeProto &, const Twine &prefix,
                      size_t index, unsigned depth)>
        visit);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_PARTIMPORTER_H
