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
  if (failed(node.refuseOutputs(
          1, "the mask is never stored: the gradient draws it again")))
    return failure();
  (void)node.getInt("seed", 0);
  double ratio = 0.5;
  bool isTraining = false;
  for (unsigned index : {1u, 2u}) {
    if (!node.hasInput(index))
      continue;
    DenseElementsAttr value = node.getConstant(index);
    if (!value || value.getNumElements() != 1)
      return node.emitError()
             << (index == 1 ? "ratio " : "training_mode ")
             << quote(node.getInputName(index))
             << " has to be one number that is known at import";
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
  if (!isTraining || ratio == 0.0)
    return importIdentity(node);
  return node.setResult(DropoutOp::create(
      node.b, node.getInput(0), node.graph.getRng(), APFloat(ratio),
      node.graph.takeStream(), PrecisionAttr()));
}
