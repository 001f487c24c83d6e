//===- Attention.cpp - The ONNX op Attention ------------------------------===//

#include "OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Heads of [batch, length, heads * size] become an axis: [batch, heads,
/// length, size].
static Value splitHeads(Node &node, unsigned index, int64_t heads) {
  ArrayRef<int64_t> shape = node.getShape(index);
  Value split = buildReshape(node.b, node.getInput(index),
                             {shape[0], shape[1], heads, shape[2] / heads});
  return buildTranspose(node.b, split, {0, 2, 1, 3});
}

LogicalResult mlir::binade::importer::importAttention(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  for (unsigned index = 3; index < node.getNumInputs(); ++index)
    if (node.hasInput(index))
      return node.emitError()
             << "input " << quote(node.getInputName(index))
             << " is not supported: masks other than is_causal and caches of "
                "keys have no training form; export with opset 22 or earlier "
                "for a mask";
  if (failed(node.refuseOutputs(1, "only the attention itself is supported")) ||
      failed(requireFloats(node)))
    return failure();
  if (node.getFloat("softcap", 0.0f) != 0.0)
    return node.emitError() << "softcap is not supported";
  (void)node.getInt("qk_matmul_output_mode", 0);
  (void)node.getInt("softmax_precision", 1); // Scores are f32 in any case.
  bool isCausal = node.getInt("is_causal", 0);
  int64_t rank = node.getRank(0);
  int64_t heads = node.getInt("q_num_heads", 1);
  int64_t keyHeads = node.getInt("kv_num_heads", heads);
  auto reject = [&]() {
    return node.emitError()
           << "cannot attend from " << node.getType(0) << " to "
           << node.getType(1) << " and " << node.getType(2);
  };
  if ((rank != 3 && rank != 4) || node.getRank(1) != rank ||
      node.getRank(2) != rank || node.getElement(1) != node.getElement(0) ||
      node.getElement(2) != node.getElement(0))
    return reject();
  Value values[3];
  for (unsigned index : {0u, 1u, 2u}) {
    int64_t count = index == 0 ? heads : keyHeads;
    if (rank == 4)
      values[index] = node.getInput(index);
    else if (count < 1 || node.getShape(index)[2] % count != 0)
      return reject();
    else
      values[index] = splitHeads(node, index, count);
  }
  auto shape = [&](unsigned index) {
    return cast<RankedTensorType>(values[index].getType()).getShape();
  };
  if (shape(1)[1] != shape(0)[1])
    return node.emitError()
           << "has " << shape(0)[1] << " heads of queries and " << shape(1)[1]
           << " of keys; they have to be as many";
  if (shape(1)[0] != shape(0)[0] ||
      shape(2).take_front(3) != shape(1).take_front(3) ||
      shape(1)[3] != shape(0)[3] || (isCausal && shape(1)[2] != shape(0)[2]))
    return reject();
  double scale = 1.0 / std::sqrt(static_cast<double>(shape(0)[3]));
  if (node.hasAttribute("scale"))
    scale = node.getFloat("scale", 0.0f);
  auto attention =
      AttentionOp::create(b, values[0], values[1], values[2], APFloat(scale),
                          isCausal, PrecisionAttr());
  Value y = attention.getY();
  if (rank == 3) {
    y = buildTranspose(b, y, {0, 2, 1, 3});
    ArrayRef<int64_t> split = cast<RankedTensorType>(y.getType()).getShape();
    y = buildReshape(b, y, {split[0], split[1], split[2] * split[3]});
  }
  return node.setResult(y);
}
