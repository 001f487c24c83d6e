//===- FlexAttention.cpp - Import of FlexAttention ------------------------===//

#include "../Body.h"
#include "../OpTable.h"
#include "Arithmetic.h"
#include "Attention.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Applies the subgraph in attribute `name` to `x` and returns the result,
/// which must have the type of `x`. Returns `x` if the attribute is missing.
static FailureOr<Value> applyGraph(Node &node, StringRef name, Value x) {
  if (!node.hasAttribute(name))
    return x;
  Body body(node, name);
  if (failed(body.readGraph()))
    return failure();
  NamedValue input{x, std::nullopt};
  auto outputs = body.unroll(input, name);
  if (failed(outputs))
    return failure();
  if (outputs->size() == 1 && outputs->front().tensor &&
      outputs->front().tensor.getType() == x.getType())
    return outputs->front().tensor;
  return node.emitUnsupported()
         << "expected " << quote(name) << " to return one "
         << "tensor of type " << x.getType();
}

LogicalResult mlir::binade::importer::importFlexAttention(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  Value query = node.getInput(0), key = node.getInput(1),
        value = node.getInput(2);
  ArrayRef<int64_t> q = node.getShape(0), k = node.getShape(1),
                    v = node.getShape(2);
  if (failed(requireFloats(node)))
    return failure();
  Type element = node.getElement(0);
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || k[0] != q[0] ||
      k[3] != q[3] || v.take_front(3) != k.take_front(3) || k[1] < 1 ||
      q[1] % k[1] != 0 || node.getElement(1) != element ||
      node.getElement(2) != element)
    return node.emitError()
           << "cannot attend with queries " << node.getType(0) << ", keys "
           << node.getType(1) << " and values " << node.getType(2);
  key = repeatHeads(b, key, q[1]);
  value = repeatHeads(b, value, q[1]);
  double scale = 1.0 / std::sqrt(static_cast<double>(q[3]));
  if (node.hasAttribute("scale"))
    scale = node.getFloat("scale", 0.0f);
  Type compute = element.isF64() ? element : Type(b.getF32Type());
  bool isPlain =
      !node.hasAttribute("score_mod") && !node.hasAttribute("prob_mod");
  if (node.hasAttribute("softmax_precision")) {
    int64_t number = node.getInt("softmax_precision", 0);
    compute = getElementType(b.getContext(), number);
    if (!compute)
      return node.emitUnsupported() << describeElementType(number);
    if (!isa<FloatType>(compute) || compute.getIntOrFloatBitWidth() < 16)
      return node.emitUnsupported()
             << "expected a softmax_precision of 16 bits or more, got "
             << compute;
  }
  if (isPlain)
    return node.setResult(AttentionOp::create(b, query, key, value,
                                              APFloat(scale), /*causal=*/false)
                              .getY());
  if (!(scale >= 0.0))
    return node.emitUnsupported()
           << "expected a scale of at least 0, got " << scale;
  FailureOr<Value> scores =
      applyGraph(node, "score_mod",
                 buildCast(b, buildScores(b, query, key, scale), compute));
  if (failed(scores))
    return failure();
  FailureOr<Value> weights = applyGraph(
      node, "prob_mod", SoftmaxOp::create(b, *scores, PrecisionAttr()));
  if (failed(weights))
    return failure();
  return node.setResult(MatmulOp::create(
      b, buildCast(b, *weights, element), value, Value(),
      /*transpose_lhs=*/false, /*transpose_rhs=*/false, PrecisionAttr()));
}
