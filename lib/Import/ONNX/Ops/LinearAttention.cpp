//===- LinearAttention.cpp - Import of LinearAttention --------------------===//
//
// Unrolls the recurrence, in f32 or wider. The state of each head is a matrix
// [key size, value size]. Each step multiplies it by a decay, adds the outer
// product of a key and a (corrected) value, and multiplies it by the queries.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
/// Sizes and the compute type of all inputs.
struct Heads {
  int64_t batch, length, queries, pairs, keySize, valueSize;
  Type compute;
};
} // namespace

/// Returns input `index`, [batch, length, heads * size], as [batch, heads,
/// length, size] in the compute type.
static FailureOr<Value> splitLinearHeads(Node &node, unsigned index,
                                         const Heads &heads, int64_t count,
                                         int64_t size) {
  ImplicitLocOpBuilder &b = node.b;
  SmallVector<int64_t> packed = {heads.batch, heads.length, count * size};
  if (!node.hasFloats(index) || node.getShape(index) != ArrayRef(packed))
    return node.emitError()
           << "expected floats [" << packed << "], got " << node.getType(index);
  Value x = buildCast(b, node.getInput(index), heads.compute);
  x = buildReshape(b, x, {heads.batch, heads.length, count, size});
  return buildTranspose(b, x, {0, 2, 1, 3});
}

/// Fails unless the input is present if `isWanted` and missing otherwise.
static LogicalResult requireInput(Node &node, unsigned index, bool isWanted,
                                  StringRef rule) {
  if (node.hasInput(index) == isWanted)
    return success();
  return node.emitError() << "with update_rule " << quote(rule) << " "
                          << (isWanted ? "needs" : "takes no") << " input "
                          << index;
}

static FailureOr<Heads> readHeads(Node &node) {
  Heads heads;
  heads.queries = node.getInt("q_num_heads", 0);
  heads.pairs = node.getInt("kv_num_heads", 0);
  if (node.getRank(0) != 3 || node.getRank(2) != 3 || heads.queries < 1 ||
      heads.pairs < 1 || heads.queries % heads.pairs != 0 ||
      node.getShape(0)[2] % heads.queries != 0 ||
      node.getShape(2)[2] % heads.pairs != 0)
    return node.emitError()
           << "cannot split " << node.getType(0) << " and " << node.getType(2)
           << " into " << heads.queries << " and " << heads.pairs << " heads";
  heads.batch = node.getShape(0)[0], heads.length = node.getShape(0)[1];
  heads.keySize = node.getShape(0)[2] / heads.queries;
  heads.valueSize = node.getShape(2)[2] / heads.pairs;
  heads.compute = node.b.getF32Type();
  if (node.getElement(0).isF64())
    heads.compute = node.getElement(0);
  return heads;
}

LogicalResult mlir::binade::importer::importLinearAttention(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  (void)node.getInt("chunk_size", 0); // A hint for other implementations.
  StringRef rule = node.getString("update_rule", "gated_delta");
  bool fades = rule == "gated" || rule == "gated_delta";
  bool corrects = rule == "delta" || rule == "gated_delta";
  if (!fades && !corrects && rule != "linear")
    return node.emitError() << "does not know update_rule " << quote(rule);
  FailureOr<Heads> read = readHeads(node);
  if (failed(read) || failed(requireInput(node, 4, fades, rule)) ||
      failed(requireInput(node, 5, corrects, rule)))
    return failure();
  const Heads &heads = *read;
  constexpr int64_t kMaxSteps = 4096; // Each step is unrolled.
  if (failed(node.checkCount(heads.length, kMaxSteps, "steps")))
    return failure();
  FailureOr<Value> query =
      splitLinearHeads(node, 0, heads, heads.queries, heads.keySize);
  FailureOr<Value> key =
      splitLinearHeads(node, 1, heads, heads.pairs, heads.keySize);
  FailureOr<Value> value =
      splitLinearHeads(node, 2, heads, heads.pairs, heads.valueSize);
  FailureOr<Value> decay = Value(), rate = Value();
  if (fades) {
    bool isPerHead = node.getRank(4) == 3 && node.getShape(4)[2] == heads.pairs;
    decay = splitLinearHeads(node, 4, heads, heads.pairs,
                             isPerHead ? 1 : heads.keySize);
  }
  if (corrects) {
    bool isOne = node.getRank(5) == 3 && node.getShape(5)[2] == 1;
    rate = splitLinearHeads(node, 5, heads, isOne ? 1 : heads.pairs, 1);
  }
  if (failed(query) || failed(key) || failed(value) || failed(decay) ||
      failed(rate))
    return failure();
  double scale = node.getFloat("scale", 0.0f);
  if (scale == 0.0)
    scale = 1.0 / std::sqrt(static_cast<double>(heads.keySize));
  SmallVector<int64_t> shape = {heads.batch, heads.pairs, heads.keySize,
                                heads.valueSize};
  auto stateType = RankedTensorType::get(shape, heads.compute);
  Type kept = node.hasInput(3) ? node.getElement(3) : node.getElement(0);
  Value state = buildSplat(b, stateType, 0.0);
  if (node.hasInput(3)) {
    if (!node.hasFloats(3) || node.getShape(3) != ArrayRef(shape))
      return node.emitError()
             << "expected a state [" << shape << "], got " << node.getType(3);
    state = buildCast(b, node.getInput(3), heads.compute);
  }
  auto at = [&](Value x, int64_t step) {
    return buildSlice(b, x, 2, step, 1); // [batch, heads, 1, size]
  };
  auto multiply = [&](Value x, Value y, bool turnsLeft) -> Value {
    return MatmulOp::create(b, x, y, Value(), turnsLeft, false,
                            PrecisionAttr());
  };
  SmallVector<int64_t> added = {heads.batch, heads.pairs, 1, heads.valueSize};
  SmallVector<Value> outputs;
  for (int64_t step = 0; step < heads.length; ++step) {
    if (fades) {
      Value factor =
          ExpOp::create(b, buildTranspose(b, at(*decay, step), {0, 1, 3, 2}));
      state = MulOp::create(b, state, broadcastTo(b, factor, shape));
    }
    Value written = at(*value, step);
    if (corrects) {
      Value found = multiply(at(*key, step), state, false);
      written = MulOp::create(b, broadcastTo(b, at(*rate, step), added),
                              SubOp::create(b, written, found));
    }
    state = AddOp::create(b, state, multiply(at(*key, step), written, true));
    // The queries of a group read the same state, as rows of one matmul.
    Value rows = buildReshape(
        b, at(*query, step),
        {heads.batch, heads.pairs, heads.queries / heads.pairs, heads.keySize});
    outputs.push_back(
        buildReshape(b, multiply(rows, state, false),
                     {heads.batch, 1, heads.queries * heads.valueSize}));
  }
  auto type = RankedTensorType::get(
      {heads.batch, heads.length, heads.queries * heads.valueSize},
      heads.compute);
  Value y = outputs.empty() ? buildSplat(b, type, 0.0)
            : outputs.size() == 1
                ? outputs.front()
                : Value(ConcatOp::create(b, type, outputs, 1));
  y = MulOp::create(b, y, buildSplat(b, type, scale));
  node.setOutput(0, buildCast(b, y, node.getElement(0)));
  node.setOutput(1, buildCast(b, state, kept));
  return success();
}
