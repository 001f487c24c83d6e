//===- QuantizeNodes.h - FP8 in ONNX's words --------------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_QUANTIZENODES_H
#define BINADE_LIB_EXPORT_QUANTIZENODES_H

#include "Names.h"
#include "mlir/Support/LLVM.h"
#include "onnx-ml.pb.h"

namespace mlir::binade::convert {

/// Adds nodes that quantize to codes of FP8 with one scale for a tensor, and
/// read them back.
class QuantizeNodes {
public:
  QuantizeNodes(::onnx::GraphProto &graph, Names &names)
      : graph(graph), names(names) {}

  /// The value called `value`, of f32, as codes of `type` stand for it. New
  /// names start with `name`.
  std::string quantize(const std::string &name, const std::string &value,
                       int32_t type);
  std::string dequantize(const std::string &name, const std::string &codes,
                         const std::string &scale);

  /// The name of a new constant.
  std::string addScalar(const std::string &name, float value);

  /// Gives the new constants to the graph.
  void finish();

private:
  std::string addNode(const char *op, ArrayRef<std::string> inputs,
                      const std::string &output);
  std::string addScale(const std::string &name, const std::string &value,
                       int32_t type);
  const std::string &getScalar(const char *name, float value);

  ::onnx::GraphProto &graph;
  Names &names;
  std::map<std::pair<std::string, float>, std::string> scalars;
  std::map<int32_t, std::string> zeroPoints;
  SmallVector<::onnx::TensorProto> tensors;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_QUANTIZENODES_H
