//===- Recurrent.cpp - Import of RNN, GRU and LSTM ------------------------===//
//
// Unrolls the steps. The matmul with the input is one op for all steps. Weights
// are [directions, gates * hidden, ...]; the biases are those of the input's
// and of the state's matmul.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
using Function = Value (*)(ImplicitLocOpBuilder &, Value);

/// The state of a cell after a step. `cell` and the activations of all gates,
/// `gates` [batch, gates * hidden], exist for LSTM only.
struct State {
  Value hidden, cell, gates;
};

/// The weights of one direction, [gates * hidden, ...] each, and its input.
struct Direction {
  /// Input times weight, plus bias: [steps, batch, gates * hidden].
  Value input;
  Value weight, bias; ///< Those of the state; the bias may be null.
  Value peepholes;    ///< [3 * hidden], or null.
  SmallVector<Function> functions;
  State initial;
  bool isReverse = false;
};

class Recurrent {
public:
  Recurrent(Node &node, int64_t gates, int64_t functions,
            ArrayRef<StringRef> defaults)
      : node(node), b(node.b), gates(gates), numFunctions(functions),
        defaults(defaults) {}
  virtual ~Recurrent() = default;
  LogicalResult import();

protected:
  /// Returns the next state. `input` is the step's part of the input's matmul.
  virtual State advance(const Direction &d, Value input, State state) = 0;
  virtual LogicalResult readMore() { return success(); }

  Value gate(Value all, int64_t index) {
    return buildSlice(b, all, 1, index * hidden, hidden);
  }
  Value add(Value lhs, Value rhs) { return AddOp::create(b, lhs, rhs); }
  Value mul(Value lhs, Value rhs) { return MulOp::create(b, lhs, rhs); }
  /// x W^T + bias
  Value multiply(Value x, Value weight, Value bias) {
    return MatmulOp::create(b, x, weight, bias, false, true, PrecisionAttr());
  }
  /// Returns entries [index * count, (index + 1) * count) of the first axis.
  Value part(Value x, int64_t index, int64_t count) {
    return buildSlice(b, x, 0, index * count, count);
  }

  Node &node;
  ImplicitLocOpBuilder &b;
  int64_t gates, numFunctions, directions = 1, hidden = 0, steps = 0, batch = 0;
  ArrayRef<StringRef> defaults;

private:
  LogicalResult read();
  FailureOr<Function> parse(StringRef name);
  FailureOr<Direction> readDirection(int64_t number, bool isReverse);
  Value select(Value x, int64_t direction);
  SmallVector<State> emit(const Direction &d, State &last);
  Value buildIsInside(int64_t step);

  SmallVector<Function> functions;
  bool isBatchFirst = false;
};
} // namespace

static Value tanhOf(ImplicitLocOpBuilder &b, Value x) {
  return TanhOp::create(b, x);
}
static Value sigmoidOf(ImplicitLocOpBuilder &b, Value x) {
  return SigmoidOp::create(b, x);
}
static Value reluOf(ImplicitLocOpBuilder &b, Value x) {
  return ReluOp::create(b, x);
}

FailureOr<Function> Recurrent::parse(StringRef name) {
  std::string lower = name.lower();
  if (lower == "tanh")
    return tanhOf;
  if (lower == "sigmoid")
    return sigmoidOf;
  if (lower == "relu")
    return reluOf;
  return node.emitUnsupported()
         << "activation " << quote(name)
         << " is not supported; Tanh, Sigmoid and Relu are";
}

LogicalResult Recurrent::read() {
  StringRef direction = node.getString("direction", "forward");
  directions = direction == "bidirectional" ? 2 : 1;
  if (direction != "forward" && direction != "reverse" && directions == 1)
    return node.emitError() << "does not know direction " << quote(direction);
  isBatchFirst = node.getInt("layout", 0);
  if (node.getFloat("clip", 0.0f) != 0.0)
    return node.emitUnsupported() << "clip is not supported";
  if (failed(requireFloats(node)))
    return failure();
  RankedTensorType x = node.getType(0), w = node.getType(1),
                   r = node.getType(2);
  if (x.getRank() != 3 || w.getRank() != 3 || r.getRank() != 3)
    return node.emitError() << "expected three axes each, got " << x << ", "
                            << w << " and " << r;
  hidden = r.getDimSize(2);
  steps = x.getDimSize(isBatchFirst ? 1 : 0);
  batch = x.getDimSize(isBatchFirst ? 0 : 1);
  if (steps == 0)
    return node.emitUnsupported()
           << "expected sequences of a step or more, got " << x;
  if (failed(node.checkCount(steps, kMaxOps, "steps")))
    return failure();
  if (node.hasInput(4) && (!node.getElement(4).isInteger(32) ||
                           node.getShape(4) != ArrayRef<int64_t>(batch)))
    return node.emitError() << "expected a length of int32 for each of "
                            << batch << " sequences, got " << node.getType(4);
  SmallVector<int64_t> expected = {directions, gates * hidden, x.getDimSize(2)};
  bool fits = w.getShape() == ArrayRef(expected) &&
              node.getInt("hidden_size", hidden) == hidden;
  expected.back() = hidden;
  if (!fits || r.getShape() != ArrayRef(expected))
    return node.emitError()
           << "weights " << w << " and " << r << " do not fit " << x;
  SmallVector<StringRef> names = node.getStrings("activations");
  if (names.empty())
    for (int64_t i = 0; i < directions; ++i)
      llvm::append_range(names, defaults);
  if (static_cast<int64_t>(names.size()) != directions * numFunctions)
    return node.emitError() << "expected " << directions * numFunctions
                            << " activations, got " << names.size();
  for (StringRef name : names) {
    FailureOr<Function> function = parse(name);
    if (failed(function))
      return failure();
    functions.push_back(*function);
  }
  return readMore();
}

/// Returns the entry of `x` for one direction, without the axis of directions.
Value Recurrent::select(Value x, int64_t direction) {
  if (!x)
    return x;
  Value part = buildSlice(b, x, 0, direction, 1);
  return buildReshape(
      b, part, cast<RankedTensorType>(part.getType()).getShape().drop_front());
}

FailureOr<Direction> Recurrent::readDirection(int64_t number, bool isReverse) {
  Direction d;
  d.isReverse = isReverse;
  int64_t width = gates * hidden;
  Value x = node.getInput(0);
  if (isBatchFirst)
    x = buildTranspose(b, x, {1, 0, 2});
  int64_t depth = node.getShape(0)[2];
  Value inputBias;
  if (node.hasInput(3)) {
    if (node.getShape(3) != ArrayRef<int64_t>({directions, 2 * width}))
      return node.emitError() << "expected biases of [" << directions << ", "
                              << 2 * width << "], got " << node.getType(3);
    Value both = select(node.getInput(3), number);
    inputBias = part(both, 0, width);
    d.bias = part(both, 1, width);
  }
  Value all = multiply(buildReshape(b, x, {steps * batch, depth}),
                       select(node.getInput(1), number), inputBias);
  d.input = buildReshape(b, all, {steps, batch, width});
  d.weight = select(node.getInput(2), number);
  d.functions.assign(functions.begin() + number * numFunctions,
                     functions.begin() + (number + 1) * numFunctions);
  auto readState = [&](unsigned index) -> Value {
    auto type = RankedTensorType::get({batch, hidden}, node.getElement(0));
    if (!node.hasInput(index))
      return buildSplat(b, type, 0.0);
    Value given = node.getInput(index);
    if (isBatchFirst)
      given = buildTranspose(b, given, {1, 0, 2});
    return select(given, number);
  };
  for (unsigned index : {5u, 6u}) {
    SmallVector<int64_t> expected = {directions, batch, hidden};
    if (isBatchFirst)
      std::swap(expected[0], expected[1]);
    if (index < node.getNumInputs() && node.hasInput(index) &&
        node.getShape(index) != ArrayRef(expected))
      return node.emitError() << "expected a state of [" << expected
                              << "], got " << node.getType(index);
  }
  d.initial.hidden = readState(5);
  if (gates == 4)
    d.initial.cell = readState(6);
  if (node.getNumInputs() > 7 && node.hasInput(7))
    d.peepholes = select(node.getInput(7), number);
  return d;
}

/// Returns the states after each step, ordered by time, and sets `last` to the
/// final one. A state does not change past the end of its sequence; a reverse
/// direction starts at the end.
SmallVector<State> Recurrent::emit(const Direction &d, State &last) {
  SmallVector<State> states(steps);
  last = d.initial;
  for (int64_t i = 0; i < steps; ++i) {
    int64_t step = d.isReverse ? steps - 1 - i : i;
    Value input = buildReshape(b, buildSlice(b, d.input, 0, step, 1),
                               {batch, gates * hidden});
    State next = advance(d, input, last);
    if (Value isInside = buildIsInside(step)) {
      next.hidden = SelectOp::create(b, isInside, next.hidden, last.hidden);
      if (next.cell)
        next.cell = SelectOp::create(b, isInside, next.cell, last.cell);
    }
    states[step] = last = next;
  }
  return states;
}

/// Builds, for each element of a state, whether `step` is within its sequence;
/// returns null if all sequences have full length.
Value Recurrent::buildIsInside(int64_t step) {
  if (!node.hasInput(4))
    return {};
  Value lengths = node.getInput(4);
  Value now = buildSplat(b, lengths.getType(), static_cast<double>(step));
  Value isInside = CompareOp::create(b, now, lengths, Comparison::Less);
  return buildBroadcast(b, isInside, {0}, {batch, hidden});
}

static Value joinAlong(ImplicitLocOpBuilder &b, ArrayRef<Value> parts,
                       int64_t axis) {
  if (parts.size() == 1)
    return parts.front();
  auto type = cast<RankedTensorType>(parts.front().getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = 0;
  for (Value part : parts)
    shape[axis] += cast<RankedTensorType>(part.getType()).getDimSize(axis);
  return ConcatOp::create(b, type.clone(shape), parts, axis, PrecisionAttr());
}

LogicalResult Recurrent::import() {
  if (failed(read()))
    return failure();
  bool isReverse = node.getString("direction", "forward") == "reverse";
  SmallVector<Value> sequences, hiddens, cells, allCells, allGates;
  for (int64_t number = 0; number < directions; ++number) {
    FailureOr<Direction> d = readDirection(number, isReverse || number == 1);
    if (failed(d))
      return failure();
    State last;
    SmallVector<State> states = emit(*d, last);
    // Outputs past the end of a sequence are 0.
    for (auto [step, state] : llvm::enumerate(states))
      if (Value isInside = buildIsInside(step))
        state.hidden =
            SelectOp::create(b, isInside, state.hidden,
                             buildSplat(b, state.hidden.getType(), 0.0));
    // [steps, 1, batch, ...]
    auto join = [&](Value State::*member) {
      SmallVector<Value> parts;
      for (const State &state : states) {
        Value x = state.*member;
        int64_t width = cast<RankedTensorType>(x.getType()).getDimSize(1);
        parts.push_back(buildReshape(b, x, {1, 1, batch, width}));
      }
      return joinAlong(b, parts, 0);
    };
    sequences.push_back(join(&State::hidden));
    hiddens.push_back(buildReshape(b, last.hidden, {1, batch, hidden}));
    if (!last.cell)
      continue;
    cells.push_back(buildReshape(b, last.cell, {1, batch, hidden}));
    allCells.push_back(join(&State::cell));
    allGates.push_back(join(&State::gates));
  }
  // Results are [steps, directions, batch, hidden] or have the batch first.
  auto place = [&](Value x, ArrayRef<int64_t> batchFirst) {
    return isBatchFirst ? buildTranspose(b, x, batchFirst) : x;
  };
  if (node.hasOutput(0))
    node.setOutput(0, place(joinAlong(b, sequences, 1), {2, 0, 1, 3}));
  if (node.hasOutput(1))
    node.setOutput(1, place(joinAlong(b, hiddens, 0), {1, 0, 2}));
  if (gates == 4 && node.hasOutput(2))
    node.setOutput(2, place(joinAlong(b, cells, 0), {1, 0, 2}));
  // Further outputs of LSTMTraining, which LSTMGrad reads.
  if (gates == 4 && node.hasOutput(3))
    node.setOutput(3, joinAlong(b, allCells, 1));
  if (gates == 4 && node.hasOutput(4))
    node.setOutput(4, joinAlong(b, allGates, 1));
  return success();
}

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

namespace {
/// h = f(x + W h)
struct PlainCell : Recurrent {
  explicit PlainCell(Node &node) : Recurrent(node, 1, 1, kDefaults) {}
  State advance(const Direction &d, Value input, State state) override {
    Value sum = add(input, multiply(state.hidden, d.weight, d.bias));
    return {d.functions[0](b, sum), Value(), Value()};
  }
  static constexpr StringRef kDefaults[] = {"Tanh"};
};

/// GRU (Cho et al., 2014): update gate z, reset gate r and candidate h, in this
/// order.
struct GatedCell : Recurrent {
  explicit GatedCell(Node &node) : Recurrent(node, 3, 2, kDefaults) {}
  LogicalResult readMore() override {
    resetsProduct = node.getInt("linear_before_reset", 0);
    return success();
  }
  State advance(const Direction &d, Value input, State state) override {
    Value gatesWeight = buildSlice(b, d.weight, 0, 0, 2 * hidden);
    Value gatesBias = d.bias ? buildSlice(b, d.bias, 0, 0, 2 * hidden) : d.bias;
    Value both = add(buildSlice(b, input, 1, 0, 2 * hidden),
                     multiply(state.hidden, gatesWeight, gatesBias));
    both = d.functions[0](b, both);
    Value update = gate(both, 0), reset = gate(both, 1);
    Value weight = part(d.weight, 2, hidden);
    Value bias = d.bias ? part(d.bias, 2, hidden) : d.bias;
    Value past = resetsProduct
                     ? mul(reset, multiply(state.hidden, weight, bias))
                     : multiply(mul(reset, state.hidden), weight, bias);
    Value candidate = d.functions[1](b, add(gate(input, 2), past));
    Value one = buildSplat(b, update.getType(), 1.0);
    Value next = add(mul(SubOp::create(b, one, update), candidate),
                     mul(update, state.hidden));
    return {next, Value(), Value()};
  }
  bool resetsProduct = false;
  static constexpr StringRef kDefaults[] = {"Sigmoid", "Tanh"};
};

/// LSTM (Hochreiter & Schmidhuber, 1997) with ONNX's order of gates: input,
/// output, forget, cell. Input, output and forget gates may have peepholes.
struct MemoryCell : Recurrent {
  explicit MemoryCell(Node &node) : Recurrent(node, 4, 3, kDefaults) {}
  LogicalResult readMore() override {
    couples = node.getInt("input_forget", 0);
    if (node.getNumInputs() > 7 && node.hasInput(7) &&
        node.getShape(7) != ArrayRef<int64_t>({directions, 3 * hidden}))
      return node.emitError() << "expected peepholes of [" << directions << ", "
                              << 3 * hidden << "], got " << node.getType(7);
    return success();
  }
  State advance(const Direction &d, Value input, State state) override {
    Value all = add(input, multiply(state.hidden, d.weight, d.bias));
    auto open = [&](int64_t index, int64_t peephole, Value cell) {
      Value sum = gate(all, index);
      if (d.peepholes)
        sum =
            add(sum,
                mul(cell, buildBroadcast(b, part(d.peepholes, peephole, hidden),
                                         {1}, {batch, hidden})));
      return d.functions[0](b, sum);
    };
    Value in = open(0, 0, state.cell);
    Value forget = open(2, 2, state.cell);
    if (couples)
      forget = SubOp::create(b, buildSplat(b, in.getType(), 1.0), in);
    Value candidate = d.functions[1](b, gate(all, 3));
    Value cell = add(mul(forget, state.cell), mul(in, candidate));
    Value out = open(1, 1, cell);
    Value gates = joinAlong(b, {in, out, forget, candidate}, 1);
    return {mul(out, d.functions[2](b, cell)), cell, gates};
  }
  bool couples = false;
  static constexpr StringRef kDefaults[] = {"Sigmoid", "Tanh", "Tanh"};
};
} // namespace

LogicalResult mlir::binade::importer::importRNN(Node &node) {
  return PlainCell(node).import();
}

LogicalResult mlir::binade::importer::importGRU(Node &node) {
  return GatedCell(node).import();
}

LogicalResult mlir::binade::importer::importLSTM(Node &node) {
  return MemoryCell(node).import();
}
