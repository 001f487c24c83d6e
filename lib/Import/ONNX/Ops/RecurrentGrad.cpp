//===- RecurrentGrad.cpp - Import of LSTMGrad -----------------------------===//
//
// Imports the gradient of LSTM in ONNX Runtime's training graphs, for one
// direction and sequences of equal length. Steps are unrolled backward; the
// gradients of the input and the weights are one matmul over all steps.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

// Indices of inputs, and of outputs: gradients of X, W, R, B and initial
// states. clang-format off
enum : unsigned {
  kX,
  kW,
  kR,
  kLengths,
  kHidden0,
  kCell0,
  kHiddens,
  kCells,
  kGates,
  kHiddensGrad,
  kHiddenGrad,
  kCellGrad
};
// clang-format on
enum : unsigned { kDX, kDW, kDR, kDB, kDHidden0, kDCell0 };

namespace {
struct LstmGrad {
  explicit LstmGrad(Node &node) : node(node), b(node.b) {}
  LogicalResult checkLstm();
  void buildGradients();

private:
  /// Returns step `step` of an input [steps, 1, batch, width] as [batch,
  /// width].
  Value at(unsigned input, int64_t step, int64_t width) {
    return buildReshape(b, buildSlice(b, node.getInput(input), 0, step, 1),
                        {batch, width});
  }
  /// Returns an input [1, batch, hidden] as [batch, hidden]; zeros if it is
  /// missing.
  Value state(unsigned input) {
    if (node.hasInput(input))
      return buildReshape(b, node.getInput(input), {batch, hidden});
    auto type = RankedTensorType::get({batch, hidden}, node.getElement(kX));
    return buildSplat(b, type, 0.0);
  }
  Value mul(Value lhs, Value rhs) { return MulOp::create(b, lhs, rhs); }
  Value add(Value lhs, Value rhs) { return AddOp::create(b, lhs, rhs); }
  /// x (1 - y)
  Value mulComplement(Value x, Value y) {
    Value one = buildSplat(b, y.getType(), 1.0);
    return mul(x, SubOp::create(b, one, y));
  }
  Value multiply(Value lhs, Value rhs, bool transposesLhs) {
    return MatmulOp::create(b, lhs, rhs, Value(), transposesLhs, false,
                            PrecisionAttr());
  }
  Value joinRows(ArrayRef<Value> parts, int64_t width);
  Value stepBack(int64_t step, Value &hiddenGrad, Value &cellGrad);

  Node &node;
  ImplicitLocOpBuilder &b;
  int64_t steps = 0, batch = 0, hidden = 0, depth = 0;
};
} // namespace

LogicalResult LstmGrad::checkLstm() {
  if (node.getString("direction", "forward") != "forward" ||
      node.getInt("input_forget", 0) || node.hasInput(kLengths) ||
      node.getFloat("clip", 0.0f) != 0.0 || node.hasAttribute("activations"))
    return node.emitError() << "is supported for one direction, sequences of "
                               "one length and the default activations only";
  RankedTensorType x = node.getType(kX), r = node.getType(kR);
  auto reject = [&](unsigned input) {
    return node.emitError()
           << "input " << input << " of type " << node.getType(input)
           << " does not fit " << x << " and " << r;
  };
  if (x.getRank() != 3 || !node.hasFloats(kX) || x.getDimSize(0) == 0)
    return reject(kX);
  if (r.getRank() != 3)
    return reject(kR);
  if (failed(node.checkCount(x.getDimSize(0), kMaxOps, "steps")))
    return failure();
  steps = x.getDimSize(0), batch = x.getDimSize(1), depth = x.getDimSize(2);
  hidden = r.getDimSize(2);
  (void)node.getInt("hidden_size", hidden);
  auto fits = [&](unsigned input, ArrayRef<int64_t> shape) {
    return !node.hasInput(input) || node.getType(input) == x.clone(shape);
  };
  SmallVector<int64_t> state = {1, batch, hidden},
                       all = {steps, 1, batch, hidden}, gates = all;
  gates[3] *= 4;
  std::pair<unsigned, SmallVector<int64_t>> expected[] = {
      {kW, {1, 4 * hidden, depth}},
      {kR, {1, 4 * hidden, hidden}},
      {kHidden0, state},
      {kCell0, state},
      {kHiddens, all},
      {kCells, all},
      {kGates, gates},
      {kHiddensGrad, all},
      {kHiddenGrad, state},
      {kCellGrad, state}};
  for (auto &[input, shape] : expected)
    if (!fits(input, shape))
      return reject(input);
  for (unsigned input : {kHiddens, kCells, kGates})
    if (!node.hasInput(input))
      return node.emitError()
             << "needs input " << input << ", an output of LSTMTraining";
  return success();
}

Value LstmGrad::joinRows(ArrayRef<Value> parts, int64_t width) {
  if (parts.size() == 1)
    return parts.front();
  auto type = cast<RankedTensorType>(parts.front().getType());
  SmallVector<int64_t> shape = {steps * batch, width};
  return ConcatOp::create(b, type.clone(shape), parts, 0, PrecisionAttr());
}

/// Builds the gradient of the pre-activations of the gates of `step`, [batch, 4
/// * hidden]. Replaces the gradients of the states after the step by those
/// before it.
Value LstmGrad::stepBack(int64_t step, Value &hiddenGrad, Value &cellGrad) {
  Value gates = at(kGates, step, 4 * hidden);
  auto gate = [&](int64_t index) {
    return buildSlice(b, gates, 1, index * hidden, hidden);
  };
  Value in = gate(0), out = gate(1), forget = gate(2), candidate = gate(3);
  Value before = step > 0 ? at(kCells, step - 1, hidden) : state(kCell0);
  Value bounded = TanhOp::create(b, at(kCells, step, hidden));
  if (node.hasInput(kHiddensGrad))
    hiddenGrad = add(hiddenGrad, at(kHiddensGrad, step, hidden));
  Value shown = mul(hiddenGrad, out);
  Value cell = add(cellGrad, mulComplement(shown, mul(bounded, bounded)));
  cellGrad = mul(cell, forget);
  auto sigmoid = [&](Value dy, Value y) {
    return mulComplement(mul(dy, y), y);
  };
  Value parts[] = {sigmoid(mul(cell, candidate), in),
                   sigmoid(mul(hiddenGrad, bounded), out),
                   sigmoid(mul(cell, before), forget),
                   mulComplement(mul(cell, in), mul(candidate, candidate))};
  auto type = RankedTensorType::get({batch, 4 * hidden}, node.getElement(kX));
  Value all = ConcatOp::create(b, type, parts, 1, PrecisionAttr());
  Value weight = buildReshape(b, node.getInput(kR), {4 * hidden, hidden});
  hiddenGrad = multiply(all, weight, false);
  return all;
}

void LstmGrad::buildGradients() {
  Value hiddenGrad = state(kHiddenGrad), cellGrad = state(kCellGrad);
  SmallVector<Value> gradients(steps), states;
  for (int64_t step = steps; step-- > 0;)
    gradients[step] = stepBack(step, hiddenGrad, cellGrad);
  states.push_back(state(kHidden0));
  for (int64_t step = 0; step + 1 < steps; ++step)
    states.push_back(at(kHiddens, step, hidden));
  Value all = joinRows(gradients, 4 * hidden);
  Value x = buildReshape(b, node.getInput(kX), {steps * batch, depth});
  Value weight = buildReshape(b, node.getInput(kW), {4 * hidden, depth});
  auto set = [&](unsigned output, Value value, ArrayRef<int64_t> shape) {
    node.setOutput(output, buildReshape(b, value, shape));
  };
  set(kDX, multiply(all, weight, false), {steps, batch, depth});
  set(kDW, multiply(all, x, true), {1, 4 * hidden, depth});
  set(kDR, multiply(all, joinRows(states, hidden), true),
      {1, 4 * hidden, hidden});
  // Both biases are added to the same sum, so their gradients are equal.
  Value bias = ReduceSumOp::create(b, all, ArrayRef<int64_t>{0});
  auto twice = RankedTensorType::get(8 * hidden, node.getElement(kX));
  set(kDB,
      ConcatOp::create(b, twice, ValueRange{bias, bias}, 0, PrecisionAttr()),
      {1, 8 * hidden});
  set(kDHidden0, hiddenGrad, {1, batch, hidden});
  set(kDCell0, cellGrad, {1, batch, hidden});
}

LogicalResult mlir::binade::importer::importLSTMGrad(Node &node) {
  LstmGrad gradient(node);
  if (failed(gradient.checkLstm()))
    return failure();
  gradient.buildGradients();
  return success();
}
