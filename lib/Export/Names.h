//===- Names.h - Names of a graph's values ----------------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_NAMES_H
#define BINADE_LIB_EXPORT_NAMES_H

#include "llvm/ADT/StringSet.h"

namespace onnx {
class GraphProto;
class ModelProto;
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

/// Values of the main graph that something else reads by their names: graphs
/// inside of its nodes, whoever runs it, or an algorithm for its training. Some
/// that none reads may be among them.
llvm::StringSet<> findReadOutside(const ::onnx::ModelProto &model);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_NAMES_H
