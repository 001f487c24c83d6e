//===- Names.h - Names of a graph's values ----------------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_NAMES_H
#define BINADE_LIB_EXPORT_NAMES_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringSet.h"

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
} // namespace onnx

namespace mlir::binade::convert {

/// Creates names that do not occur in the model.
class Names {
public:
  /// For an empty model.
  Names() = default;
  explicit Names(const ::onnx::ModelProto &model);

  std::string makeNew(llvm::StringRef wanted);

private:
  void add(const ::onnx::GraphProto &graph);

  /// Names, with the last number that was tried behind each.
  llvm::StringMap<unsigned> known;
};

/// Calls `visit` with each graph that is an attribute of `node`.
void forEachGraph(const ::onnx::NodeProto &node,
                  llvm::function_ref<void(const ::onnx::GraphProto &)> visit);

/// Calls `visit` with the inputs of `node` and all names that its subgraphs
/// read, including names that a subgraph defines itself.
void forEachRead(const ::onnx::NodeProto &node,
                 llvm::function_ref<void(const std::string &)> visit);

/// Values of the main graph that are read by name from outside of its nodes:
/// its outputs, values that a subgraph returns, and those that the model's
/// training information names. The set may contain values that nothing reads.
llvm::StringSet<> findReadOutside(const ::onnx::ModelProto &model);

/// Names that graphs inside of the nodes of `graph` read.
llvm::StringSet<> findReadInside(const ::onnx::GraphProto &graph);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_NAMES_H
