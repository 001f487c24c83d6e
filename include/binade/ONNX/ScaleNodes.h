//===- ScaleNodes.h - How scales follow from magnitudes ---------*- C++ -*-===//

#ifndef BINADE_ONNX_SCALENODES_H
#define BINADE_ONNX_SCALENODES_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Where nodes and constants are put. Who has better names for results does not
/// use those that are proposed.
class NodeSink {
public:
  virtual ~NodeSink();
  virtual std::string addNode(const char *op, ArrayRef<std::string> inputs,
                              const std::string &output) = 0;
  /// To ONNX's `type`.
  virtual std::string addCast(const std::string &value, int32_t type,
                              const std::string &output) = 0;
  virtual const std::string &getScalar(const char *name, float value) = 0;
  virtual const std::string &getDouble(const char *name, double value) = 0;
};

/// Names of what elements and codes are scaled with, f32.
struct Scales {
  std::string divisors; ///< Of elements.
  std::string factors;  ///< Of codes.
  /// Of elements, by rules that multiply them; their inverses are `divisors`.
  std::string multipliers;
};

/// The rules of `#binade.quantized`, as nodes.
class ScaleNodes {
public:
  explicit ScaleNodes(NodeSink &sink) : sink(sink) {}

  /// What follows from the magnitudes called `largest`.
  Scales add(const std::string &name, const std::string &largest,
             QuantizedAttr format);

  /// The largest power of two that is no more than `wide`, which is f64,
  /// positive and finite: its unit in the first place, as Rump has it. Nothing
  /// of f32 overflows on the way, and subnormals are like other numbers.
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
