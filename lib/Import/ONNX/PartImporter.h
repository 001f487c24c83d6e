//===- PartImporter.h - Import of the supported part ------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_PARTIMPORTER_H
#define BINADE_LIB_IMPORT_ONNX_PARTIMPORTER_H

#include "Graph.h"
#include "binade/Import/ONNX/Import.h"
#include "binade/ONNX/Dimensions.h"
#include "binade/ONNX/Initializers.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/SetVector.h"
#include <deque>

namespace mlir::binade::importer {

/// Imports the supported part of an ONNX file; other nodes are left out. The
/// methods are listed in the order of the steps.
class PartImporter {
public:
  /// `partial` lists the nodes and has the inferred types.
  PartImporter(Model &model, const ImportOptions &options,
               PartialImport &partial);

  /// Checks the options and the metadata; an error in them is fatal.
  LogicalResult prepare();
  FailureOr<OwningOpRef<ModuleOp>> run();

private:
  /// A graph of the file, at any depth, and the types of its values.
  struct Level {
    Level(const ::onnx::GraphProto &graph, const ::onnx::GraphProto *inferred);

    /// The declared or inferred type of a value; null if there is none.
    const ::onnx::ValueInfoProto *find(StringRef name) const {
      return types.lookup(name);
    }

    const ::onnx::GraphProto &graph;
    const ::onnx::GraphProto *inferred;
    SmallVector<unsigned> order;
    llvm::StringSet<> used;
    llvm::StringMap<const ::onnx::ValueInfoProto *> types;
  };
  /// The known type of a value: of a tensor, or of the elements of a sequence.
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
  void findPassedOn(Graph &graph, const ::onnx::NodeProto &node);
  void findWide(Graph &graph, const ::onnx::NodeProto &node, Operation *last);
  /// Notes that a node which is left out reads the value `name`.
  void keep(const Graph &graph, StringRef name);
  void leaveOut(Graph &graph, const Level &level, const ::onnx::NodeProto &node,
                ArrayRef<Known> made);
  PartialImport::Node &getFound(const ::onnx::NodeProto &node) {
    return partial.nodes[places.lookup(&node)];
  }

  bool isAssumed(const ::onnx::NodeProto &node) const;
  bool isWrong(DiagnosticCollector &errors, Graph &graph,
               const ::onnx::NodeProto &node) const;

  // PartGraphs.cpp: subgraphs.
  Types importGraphs(Graph &graph, const Level &level, unsigned index);
  Types importGraph(Graph &graph, Level &level, const ::onnx::NodeProto &node,
                    const Twine &prefix);
  void defineInputs(Graph &graph, const Level &level,
                    const ::onnx::NodeProto &node);

  // ImportPart.cpp: the function that contains the nodes.
  void dropUnknownTensors(Level &level);
  LogicalResult classify(const Level &level, Initializers &initializers);
  void createFunction();
  void addInputs(Graph &graph);
  llvm::StringSet<> findUpdatedTypes() const;
  /// The declared type of `value`. Unknown lengths are taken from `like`, if it
  /// has the same rank, or assumed. Null unless it is a tensor whose rank and
  /// element type are declared.
  RankedTensorType getType(const ::onnx::ValueInfoProto &value,
                           RankedTensorType like = {});
  /// Defines `name` as a placeholder for a value that is not imported.
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
  PartialImport &partial;
  TensorReader tensors;
  Metadata metadata;
  Dimensions dimensions;
  /// The index of each node in `partial.nodes`.
  llvm::DenseMap<const ::onnx::NodeProto *, unsigned> places;
  std::deque<Level> levels;
  /// Values with assumed lengths, or that depend on such values: a
  /// contradiction may then be due to the assumption.
  llvm::StringSet<> assumed;
  llvm::StringSet<> assumedLengths;
  std::vector<Diagnostic> wrong; ///< Errors that make the file invalid.
  llvm::SetVector<Value> read;   ///< Values that left-out nodes read.
  /// Placeholders for the results of left-out nodes; they become arguments of
  /// the function.
  Block standIns;
  SmallVector<NewArgument> arguments;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
};

/// Calls `visit` for each node of `graph` and, after it, for those of its
/// subgraphs, with their depth.
void forEachNode(
    const ::onnx::GraphProto &graph,
    function_ref<void(const ::onnx::NodeProto &, const Twine &prefix,
                      size_t index, unsigned depth)>
        visit,
    const std::string &prefix = "", unsigned depth = 0);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_PARTIMPORTER_H
