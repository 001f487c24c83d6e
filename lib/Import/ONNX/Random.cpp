//===- Random.cpp - Dropout -----------------------------------------------===//

#include "OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Ratio and mode are known at import; the node's own seed is not used: all
/// draws come from the step's generator, each node from its own stream.
LogicalResult mlir::binade::importer::importDropout(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  (void)node.getInt("seed", 0);
  double ratio = 0.5;
  bool isTraining = false;
  for (unsigned index : {1u, 2u}) {
    if (!node.hasInput(index))
      continue;
    StringRef what = index == 1 ? "ratio" : "training_mode";
    if (failed(node.requireConstant(index, what)))
      return failure();
    DenseElementsAttr value = node.getConstant(index);
    if (value.getNumElements() != 1)
      return node.emitError() << "expected one number as " << what << ", got "
                              << node.getType(index);
    if (index == 1 && node.hasFloats(1))
      ratio = (*value.getValues<APFloat>().begin()).convertToDouble();
    else if (index == 2 && node.getElement(2).isInteger(1))
      isTraining = *value.getValues<bool>().begin();
    else
      return node.emitError() << "expected a ratio of float and a "
                                 "training_mode of bool, got "
                              << node.getType(index);
  }
  if (!(ratio >= 0.0 && ratio < 1.0))
    return node.emitError() << "expected a ratio in [0, 1), got " << ratio;
  if (!isTraining || ratio == 0.0) {
    // Everything is kept.
    auto mask = node.getType(0).clone(node.b.getI1Type());
    if (node.hasOutput(1))
      node.setOutput(1, buildSplat(node.b, mask, 1.0));
    return importIdentity(node);
  }
  if (failed(node.refuseOutputs(
          1, "the mask is never stored: the gradient draws it again")))
    return failure();
  return node.setResult(DropoutOp::create(
      node.b, node.getInput(0), node.graph.getRng(), APFloat(ratio),
      node.graph.takeStream(), PrecisionAttr()));
}
