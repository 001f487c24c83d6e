//===- ScaleNodes.h - ONNX nodes that compute scales ------------*- C++ -*-===//

#ifndef BINADE_ONNX_SCALENODES_H
#define BINADE_ONNX_SCALENODES_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Adds nodes and constants to a graph. The names of results are proposals; an
/// implementation may choose others.
class NodeSink {
public:
  virtual ~NodeSink();
  virtual std::string addNode(const char *op, ArrayRef<std::string> inputs,
                              const std::string &output) = 0;
  /// Adds a cast to `type`, a TensorProto::DataType.
  virtual std::string addCast(const std::string &value, int32_t type,
                              const std::string &output) = 0;
  virtual const std::string &getScalar(const char *name, float value) = 0;
  virtual const std::string &getDouble(const char *name, double value) = 0;
};

/// Names of the f32 values that scale elements and quantized values.
struct Scales {
  /// Elements are divided by these to quantize them.
  std::string divisors;
  /// Quantized values are multiplied by these to dequantize them.
  std::string factors;
  /// Elements are multiplied by these to quantize them; only set by rules that
  /// multiply. Their inverses are `divisors`.
  std::string multipliers;
};

/// Adds the nodes that compute scales by the rules of `#binade.quantized`.
class ScaleNodes {
public:
  explicit ScaleNodes(NodeSink &sink) : sink(sink) {}

  /// Adds the nodes that compute scales from the largest magnitudes of groups,
  /// the value called `largest`.
  Scales add(const std::string &name, const std::string &largest,
             QuantizedAttr format);

  /// Returns the largest power of two that is not larger than `wide`, which is
  /// f64, positive and finite (Rump's "unit in the first place"). In f64 no
  /// intermediate result of an f32 value overflows, and f32 subnormals need no
  /// special case.
  std::string addUnit(const std::string &name, const std::string &wide);

private:
  std::string addAmaxScales(const std::string &name, const std::string &largest,
                            QuantizedAttr format);
  Scales addInverseScales(const std::string &name, const std::string &largest,
                          QuantizedAttr format);
  std::string addFloorScales(const std::string &name,
                             const std::string &largest, QuantizedAttr format);
  std::string addRoundUpScales(const std::string &name,
                               const std::string &largest,
                               QuantizedAttr format);
  std::string addPower(const std::string &name, const std::string &value);

  NodeSink &sink;
};

} // namespace mlir::binade

#endif // BINADE_ONNX_SCALENODES_H
