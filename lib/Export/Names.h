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

/// Makes names that the model does not have.
class Names {
public:
  /// Of a model without any.
  Names() = default;
  explicit Names(const ::onnx::ModelProto &model);

  std::string makeNew(llvm::StringRef wanted);

private:
  void add(const ::onnx::GraphProto &graph);

  /// Names, with the last number that was tried behind each.
  llvm::StringMap<unsigned> known;
};

/// Calls `visit` with what `node` reads: its inputs, and all names that graphs
/// inside of it read, some of which are their own.
void forEachRead(const ::onnx::NodeProto &node,
                 llvm::function_ref<void(const std::string &)> visit);

/// Values of the main graph that something else reads by their names: whoever
/// runs it, a graph inside of a node that returns them, or an algorithm for its
/// training. Some that none reads may be among them.
llvm::StringSet<> findReadOutside(const ::onnx::ModelProto &model);

/// Names that graphs inside of the nodes of `graph` read.
llvm::StringSet<> findReadInside(const ::onnx::GraphProto &graph);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_NAMES_H
