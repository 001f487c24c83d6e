//===- Linear.h - Which ops are linear, and in what -------------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_LINEAR_H
#define BINADE_LIB_CONVERTONNX_LINEAR_H

#include "Formats.h"

namespace mlir::binade::convert {

/// A node's outputs are multiplied by a number where all of `inputs` are, or,
/// of a product, where one of them is. Without inputs it is not linear.
struct Linearity {
  SmallVector<unsigned> inputs;
  bool isProduct = false;
};

Linearity getLinearity(const ::onnx::NodeProto &node);

/// Whether the node sums products of its first two inputs.
bool sumsProducts(const ::onnx::NodeProto &node);

/// Values that are known to be 0, which no scale changes.
class Zeros {
public:
  Zeros(const ::onnx::GraphProto &graph, const PlannedNodes &nodes);

  bool contains(StringRef name) const { return names.contains(name); }

private:
  llvm::StringSet<> names;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_LINEAR_H
