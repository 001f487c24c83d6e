//===- QuantizeNodes.h - ONNX nodes of FP8 quantization ---------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_QUANTIZENODES_H
#define BINADE_LIB_CONVERTONNX_QUANTIZENODES_H

#include "Blocks.h"
#include "binade/ONNX/ScaleNodes.h"
#include "binade/ONNX/UniqueNames.h"
#include "onnx-ml.pb.h"

namespace mlir::binade::convert {

/// Adds nodes that quantize to FP8 and dequantize. Scales are stored as f32,
/// whatever format they are rounded to.
class QuantizeNodes : NodeSink {
public:
  QuantizeNodes(::onnx::GraphProto &graph, UniqueNames &names)
      : graph(graph), names(names) {}

  /// Quantizes the f32 `value` to `format` and dequantizes it. New names start
  /// with `name`.
  std::string quantize(const std::string &name, const std::string &value,
                       const QuantizedInput &format);
  std::string dequantize(const std::string &name, const std::string &codes,
                         const std::string &scales,
                         const QuantizedInput &format);

  /// Adds a constant and returns its name.
  std::string addScalar(const std::string &name, float value);

  /// Adds the new constants to the graph.
  void finish();

private:
  std::string addLargest(const std::string &name, const std::string &value,
                         const QuantizedInput &format);
  Scales spread(const std::string &name, const std::string &value,
                const Scales &scales, const QuantizedInput &format);

  std::string addNode(const char *op, ArrayRef<std::string> inputs,
                      const std::string &output) override;
  std::string addCast(const std::string &value, int32_t type,
                      const std::string &output) override;
  /// Set attributes of the last node.
  void setInt(const char *name, int64_t value);
  void setInts(const char *name, ArrayRef<int64_t> values);

  const std::string &getScalar(const char *name, float value) override;
  const std::string &getDouble(const char *name, double value) override;
  const std::string &getInts(const char *name, ArrayRef<int64_t> values,
                             bool isScalar = false);
  const std::string &getZeroPoint(int32_t type);

  ::onnx::GraphProto &graph;
  UniqueNames &names;
  std::map<std::pair<std::string, double>, std::string> scalars;
  std::map<std::pair<std::string, std::vector<int64_t>>, std::string> integers;
  std::map<int32_t, std::string> zeroPoints;
  std::vector<::onnx::TensorProto> tensors;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_QUANTIZENODES_H
