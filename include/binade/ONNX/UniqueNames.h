//===- UniqueNames.h - Names that do not occur in a model -------*- C++ -*-===//

#ifndef BINADE_ONNX_UNIQUENAMES_H
#define BINADE_ONNX_UNIQUENAMES_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringSet.h"

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
} // namespace onnx

namespace mlir::binade {

/// Creates names that do not occur in the model.
class UniqueNames {
public:
  /// Starts without any names.
  UniqueNames() = default;
  explicit UniqueNames(const ::onnx::ModelProto &model);

  std::string makeNew(llvm::StringRef wanted);

private:
  void add(const ::onnx::GraphProto &graph);

  /// Each name with the last number that was tried as its suffix.
  llvm::StringMap<unsigned> known;
};

} // namespace mlir::binade

#endif // BINADE_ONNX_UNIQUENAMES_H
