//===- Activations.cpp - Import of activations ----------------------------===//
//
// Activations are built from simpler ops. A side of a select that could
// overflow is computed on a clamped operand: its gradient would be NaN even
// where the other side is selected.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Arithmetic.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

LogicalResult mlir::binade::importer::importFunction(
    Node &node, function_ref<Value(Arithmetic &)> build) {
  if (failed(requireFloats(node)))
    return failure();
  Value x = node.getInput(0);
  Type element = node.getElement(0);
  if (element.getIntOrFloatBitWidth() < 32)
    x = buildCast(node.b, x, node.b.getF32Type());
  Arithmetic arithmetic(node.b, x);
  return node.setResult(buildCast(node.b, build(arithmetic), element));
}

/// Returns where x <= 0: at 0 the gradient is that of the negative side, as in
/// PyTorch.
static Value isNotPositive(Arithmetic &a) {
  return a.compare(a.x, Comparison::LessEqual, 0.0);
}

/// Builds gamma alpha (e^x - 1) for x <= 0, gamma x otherwise.
static Value buildElu(Arithmetic &a, double alpha, double gamma) {
  return a.mul(a.select(isNotPositive(a), a.mul(a.decay(a.x), alpha), a.x),
               gamma);
}

LogicalResult mlir::binade::importer::importElu(Node &node) {
  double alpha = node.getFloat("alpha", 1.0f);
  return importFunction(node,
                        [&](Arithmetic &a) { return buildElu(a, alpha, 1.0); });
}

LogicalResult mlir::binade::importer::importSelu(Node &node) {
  double alpha = node.getFloat("alpha", 1.67326319217681884765625f);
  double gamma = node.getFloat("gamma", 1.05070102214813232421875f);
  return importFunction(
      node, [&](Arithmetic &a) { return buildElu(a, alpha, gamma); });
}

LogicalResult mlir::binade::importer::importCelu(Node &node) {
  double alpha = node.getFloat("alpha", 1.0f);
  return importFunction(node, [&](Arithmetic &a) {
    Value below = a.mul(a.decay(a.div(a.x, alpha)), alpha);
    return a.select(isNotPositive(a), below, a.x);
  });
}

LogicalResult mlir::binade::importer::importLeakyRelu(Node &node) {
  double alpha = node.getFloat("alpha", 0.01f);
  return importFunction(node, [&](Arithmetic &a) {
    return a.select(isNotPositive(a), a.mul(a.x, alpha), a.x);
  });
}

LogicalResult mlir::binade::importer::importPRelu(Node &node) {
  FailureOr<SmallVector<Value>> sides = broadcastInputs(node);
  if (failed(sides) || failed(requireFloats(node)))
    return failure();
  if (sides->front().getType() != node.getType(0))
    return node.emitError() << "cannot broadcast slopes of " << node.getType(1)
                            << " to " << node.getType(0);
  return importFunction(node, [&](Arithmetic &a) {
    Value slopes = buildCast(a.b, sides->back(), a.type.getElementType());
    Value sloping = MulOp::create(a.b, a.x, slopes);
    return a.select(isNotPositive(a), sloping, a.x);
  });
}

LogicalResult mlir::binade::importer::importThresholdedRelu(Node &node) {
  double alpha = node.getFloat("alpha", 1.0f);
  return importFunction(node, [&](Arithmetic &a) {
    Value isAbove = a.compare(a.x, Comparison::Greater, alpha);
    return a.select(isAbove, a.x, a.splat(0.0));
  });
}

LogicalResult mlir::binade::importer::importHardSigmoid(Node &node) {
  double alpha = node.getFloat("alpha", 0.2f),
         beta = node.getFloat("beta", 0.5f);
  return importFunction(node,
                        [&](Arithmetic &a) { return a.ramp(alpha, beta); });
}

LogicalResult mlir::binade::importer::importHardSwish(Node &node) {
  return importFunction(node, [](Arithmetic &a) -> Value {
    return MulOp::create(a.b, a.x, a.ramp(1.0f / 6.0f, 0.5));
  });
}

LogicalResult mlir::binade::importer::importSoftsign(Node &node) {
  return importFunction(node, [](Arithmetic &a) -> Value {
    return DivOp::create(a.b, a.x, a.add(AbsOp::create(a.b, a.x), 1.0));
  });
}

LogicalResult mlir::binade::importer::importSwish(Node &node) {
  double alpha = node.getFloat("alpha", 1.0f);
  return importFunction(node, [&](Arithmetic &a) { return a.swish(alpha); });
}

LogicalResult mlir::binade::importer::importShrink(Node &node) {
  double lambda = node.getFloat("lambd", 0.5f),
         bias = node.getFloat("bias", 0.0f);
  return importFunction(node, [&](Arithmetic &a) {
    Value isBelow = a.compare(a.x, Comparison::Less, -lambda),
          isAbove = a.compare(a.x, Comparison::Greater, lambda);
    Value above = a.select(isAbove, a.add(a.x, -bias), a.splat(0.0));
    return a.select(isBelow, a.add(a.x, bias), above);
  });
}

/// Builds -softplus(-x) for the logarithm of sigmoid(x), which PyTorch's
/// exporter emits for log_sigmoid and binary cross-entropy with logits: it is
/// finite where the sigmoid is 0.
LogicalResult mlir::binade::importer::importLog(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  if (auto sigmoid = node.getInput(0).getDefiningOp<SigmoidOp>()) {
    Value below = NegOp::create(b, sigmoid.getOperand());
    return node.setResult(NegOp::create(b, SoftplusOp::create(b, below)));
  }
  return importUnary<LogOp>(node);
}

/// Builds x tanh(softplus(x)).
LogicalResult mlir::binade::importer::importMish(Node &node) {
  return importFunction(node, [](Arithmetic &a) {
    return a.mul(a.x, TanhOp::create(a.b, SoftplusOp::create(a.b, a.x)));
  });
}

/// Builds a sigmoid(alpha a) b for inputs a and b.
LogicalResult mlir::binade::importer::importSwiGLU(Node &node) {
  double alpha = node.getFloat("alpha", 1.0f);
  if (node.getType(1) != node.getType(0))
    return node.emitError() << "expected two inputs of one type, got "
                            << node.getType(0) << " and " << node.getType(1);
  return importFunction(node, [&](Arithmetic &a) {
    return a.mul(a.swish(alpha),
                 buildCast(a.b, node.getInput(1), a.type.getElementType()));
  });
}
