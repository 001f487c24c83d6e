//===- Linear.h - Linearity of ONNX ops -------------------------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_LINEAR_H
#define BINADE_LIB_CONVERTONNX_LINEAR_H

#include "Formats.h"

namespace mlir::binade::convert {

/// The inputs in which a node is linear. Multiplying all of `inputs` by a
/// number multiplies the outputs by it; for a product, multiplying one of them
/// does. Empty if the node is not linear.
struct LinearInputs {
  SmallVector<unsigned> inputs;
  bool isProduct = false;
};

LinearInputs getLinearInputs(const ::onnx::NodeProto &node);

/// Whether the node is a contraction of its first two inputs: a matmul or a
/// convolution.
bool contractsInputs(const ::onnx::NodeProto &node);

/// Values that are known to be 0, which need no scaling.
class Zeros {
public:
  Zeros(const ::onnx::GraphProto &graph, const PlannedNodes &nodes);

  bool contains(StringRef name) const { return names.contains(name); }

private:
  llvm::StringSet<> names;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_LINEAR_H
