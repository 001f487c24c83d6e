//===- Optimizers.cpp - Import of optimizers that are ONNX ops ------------===//
//
// Decomposes Adam, Adagrad and Momentum of ai.onnx.preview.training. A node
// updates any number of tensors by one learning rate R and one count T of past
// updates.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Arithmetic.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
/// The inputs of a node: R, T, then for each kind (X, G and states) the tensors
/// of all parameters.
class OptimizerNode {
public:
  explicit OptimizerNode(Node &node, unsigned kinds)
      : node(node), kinds(kinds) {}

  /// Fails unless every parameter has one tensor of each kind, of the
  /// parameter's type.
  LogicalResult check() {
    unsigned given = node.getNumInputs() - 2;
    if (given == 0 || given % kinds)
      return node.emitError() << "expected R, T and " << kinds
                              << " tensors for each parameter, got "
                              << node.getNumInputs() << " inputs";
    count = given / kinds;
    for (unsigned index : {0, 1})
      if (node.getType(index).getNumElements() != 1)
        return node.emitError() << "expected one element as input " << index
                                << ", got " << node.getType(index);
    if (failed(requireFloats(node)) || !node.getElement(1).isInteger(64))
      return node.emitError() << "expected a float R and an i64 T, got "
                              << node.getType(0) << " and " << node.getType(1);
    for (unsigned index = 2; index < node.getNumInputs(); ++index)
      if (!node.hasFloats(index) ||
          node.getType(index) != node.getType(2 + (index - 2) % count))
        return node.emitError()
               << "expected " << node.getType(2 + (index - 2) % count)
               << " as input " << index << ", got " << node.getType(index);
    return success();
  }

  unsigned getCount() const { return count; }
  /// Returns the tensor of `kind` of parameter `index`.
  Value get(unsigned kind, unsigned index) const {
    return node.getInput(2 + kind * count + index);
  }
  void set(unsigned kind, unsigned index, Value value) {
    if (node.hasOutput(kind * count + index))
      node.setOutput(kind * count + index, value);
  }

  Value getRate(Type element) const { return getNumber(0, element); }
  Value getUpdates(Type element) const { return getNumber(1, element); }
  /// Selects `later` if T > 0, otherwise `first`.
  Value choose(Value later, Value first) const {
    ImplicitLocOpBuilder &b = node.b;
    Value past = buildReshape(b, node.getInput(1), {});
    Value zero = buildSplat(b, past.getType(), 0.0);
    Value isLater = CompareOp::create(b, past, zero, Comparison::Greater);
    return SelectOp::create(b, isLater, later, first);
  }

  /// Builds G + norm_coefficient X, the gradient with L2 regularization.
  Value getGradient(Arithmetic &a, unsigned index, double decay) const {
    Value gradient = get(1, index);
    return decay == 0.0 ? gradient : a.add(a.mul(a.x, decay), gradient);
  }

  Value spread(Arithmetic &a, Value number) const {
    return broadcastTo(a.b, number, a.type.getShape());
  }

private:
  Value getNumber(unsigned index, Type element) const {
    Value number = buildReshape(node.b, node.getInput(index), {});
    return buildCast(node.b, number, element);
  }

  Node &node;
  unsigned kinds, count = 0;
};
} // namespace

/// H = H + G G; X = X - R / (1 + T decay_factor) G / (sqrt(H) + epsilon)
LogicalResult mlir::binade::importer::importAdagrad(Node &node) {
  double epsilon = node.getFloat("epsilon", 1e-6f);
  double slowing = node.getFloat("decay_factor", 0.0f);
  double decay = node.getFloat("norm_coefficient", 0.0f);
  OptimizerNode given(node, 3);
  if (failed(given.check()))
    return failure();
  for (unsigned index = 0; index < given.getCount(); ++index) {
    Arithmetic a(node.b, given.get(0, index));
    Type element = a.type.getElementType();
    Value rate = given.getRate(element);
    if (slowing != 0.0) {
      Arithmetic updates(node.b, given.getUpdates(element));
      rate =
          updates.div(rate, updates.add(updates.mul(updates.x, slowing), 1.0));
    }
    Value g = given.getGradient(a, index, decay);
    Value h = a.add(given.get(2, index), a.mul(g, g));
    Value step =
        a.div(a.mul(given.spread(a, rate), g), a.add(a.sqrt(h), epsilon));
    given.set(0, index, a.sub(a.x, step));
    given.set(1, index, h);
  }
  return success();
}

/// V = alpha V + (1 - alpha) G; H = beta H + (1 - beta) G G;
/// X = (1 - norm_coefficient_post) (X - R' V / (sqrt(H) + epsilon)), with
/// R' = R sqrt(1 - beta^T) / (1 - alpha^T) where T > 0, otherwise R.
LogicalResult mlir::binade::importer::importAdam(Node &node) {
  double alpha = node.getFloat("alpha", 0.9f);
  double beta = node.getFloat("beta", 0.999f);
  double epsilon = node.getFloat("epsilon", 1e-6f);
  double decay = node.getFloat("norm_coefficient", 0.0f);
  double decayPost = node.getFloat("norm_coefficient_post", 0.0f);
  OptimizerNode given(node, 4);
  if (failed(given.check()))
    return failure();
  for (unsigned index = 0; index < given.getCount(); ++index) {
    Arithmetic a(node.b, given.get(0, index));
    Type element = a.type.getElementType();
    Arithmetic n(node.b, given.getUpdates(element));
    auto correct = [&](double kept) {
      return n.sub(n.splat(1.0), PowOp::create(node.b, n.splat(kept), n.x));
    };
    Value rate = given.getRate(element);
    Value corrected = n.div(n.mul(rate, n.sqrt(correct(beta))), correct(alpha));
    rate = given.choose(corrected, rate);
    Value g = given.getGradient(a, index, decay);
    Value v = a.add(a.mul(given.get(2, index), alpha), a.mul(g, 1.0 - alpha));
    Value h =
        a.add(a.mul(given.get(3, index), beta), a.mul(a.mul(g, g), 1.0 - beta));
    Value step =
        a.div(a.mul(given.spread(a, rate), v), a.add(a.sqrt(h), epsilon));
    given.set(0, index, a.mul(a.sub(a.x, step), 1.0 - decayPost));
    given.set(1, index, v);
    given.set(2, index, h);
  }
  return success();
}

/// V = alpha V + beta' G with beta' = beta where T > 0, otherwise 1;
/// X = X - R V or, after Nesterov, X - R (G + alpha V).
LogicalResult mlir::binade::importer::importMomentum(Node &node) {
  for (StringRef name : {"alpha", "beta", "mode", "norm_coefficient"})
    if (!node.hasAttribute(name))
      return node.emitError() << "expected an attribute '" << name << "'";
  double alpha = node.getFloat("alpha", 0.0f);
  double beta = node.getFloat("beta", 1.0f);
  double decay = node.getFloat("norm_coefficient", 0.0f);
  StringRef mode = node.getString("mode", "");
  if (mode != "standard" && mode != "nesterov")
    return node.emitError() << "expected mode 'standard' or 'nesterov', got '"
                            << ::binade::printable(mode.str(), 80) << "'";
  OptimizerNode given(node, 3);
  if (failed(given.check()))
    return failure();
  for (unsigned index = 0; index < given.getCount(); ++index) {
    Arithmetic a(node.b, given.get(0, index));
    Value rate = given.spread(a, given.getRate(a.type.getElementType()));
    Value g = given.getGradient(a, index, decay), added = g;
    if (beta != 1.0) {
      Type number = RankedTensorType::get({}, a.type.getElementType());
      Value share = given.choose(buildSplat(node.b, number, beta),
                                 buildSplat(node.b, number, 1.0));
      added = a.mul(given.spread(a, share), g);
    }
    Value v = a.add(a.mul(given.get(2, index), alpha), added);
    Value step = mode == "standard" ? v : a.add(g, a.mul(v, alpha));
    given.set(0, index, a.sub(a.x, a.mul(rate, step)));
    given.set(1, index, v);
  }
  return success();
}
