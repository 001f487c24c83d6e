//===- AttentionTiles.h - Tiles of attention --------------------*- C++ -*-===//

#ifndef BINADE_LIB_IR_OPS_ATTENTIONTILES_H
#define BINADE_LIB_IR_OPS_ATTENTIONTILES_H

#include "AttentionMath.h"

namespace mlir::binade::attention {

/// Returns the maximum number of scores in a tile of `op`.
int64_t getMostScores(Operation *op);

/// Returns the number of heads that share each key.
int64_t countSharers(Value query, Value key);

/// How an operand of a tile, or a result, depends on heads and queries. Its
/// axes are [heads, queries, ...]; an axis on which it does not depend may have
/// size 1 or be missing.
struct Access {
  bool perHead = true, perQuery = true;
  /// Whether there is an axis of heads, perhaps of size 1.
  bool hasHeads = true;
};

/// The operands of a tile with their accesses, in the order of the body's
/// arguments.
struct Operands {
  SmallVector<Value> values;
  SmallVector<Access> accesses;

  void add(Value value, Access access = {}) {
    values.push_back(value);
    accesses.push_back(access);
  }
  ValueRange getValues() const { return values; }
};

/// Splits an attention op into tiles.
class AttentionTiles {
public:
  template <typename Op>
  explicit AttentionTiles(Op op)
      : op(op), query(op.getQuery()), key(op.getKey()),
        most(getMostScores(op)) {
    extras.biases = llvm::to_vector(op.getBiases());
    extras.mask = op.getMask();
    extras.rng = op.getRng();
  }

  /// Operands other than `extras`, and whether each has a row per query or per
  /// key.
  void addOperand(Value value, bool perQuery) {
    operands.add(value, {/*perHead=*/true, perQuery});
  }
  /// Results in order, those of biases last. `bias` is the bias of which the
  /// result is the gradient, or null.
  void addResult(Value value, bool perQuery, Value bias = {}) {
    results.push_back({value, perQuery, bias});
  }

  using Body = function_ref<SmallVector<Value>(
      ImplicitLocOpBuilder &, ValueRange operands, const Extras &extras,
      Value positions)>;
  SmallVector<Value> build(ImplicitLocOpBuilder &b, Body body);

private:
  struct Result {
    Value value;
    bool perQuery;
    Value bias;
  };

  int64_t chooseSamples() const;
  SmallVector<Value> buildSamples(ImplicitLocOpBuilder &b, ValueRange pieces,
                                  Body body) const;
  SmallVector<Value> buildJoined(ImplicitLocOpBuilder &b, ValueRange own,
                                 const Extras &extras, Body body) const;
  Value finish(ImplicitLocOpBuilder &b, Value part, const Result &result,
               Value bias) const;
  bool sharesKeys() const { return countSharers(query, key) > 1; }
  int64_t countQueries() const {
    return getTensor(query).getShape().drop_back().back();
  }
  int64_t countKeys() const {
    return getTensor(key).getShape().drop_back().back();
  }

  Operation *op;
  Value query, key;
  int64_t most;
  Operands operands;
  Extras extras;
  SmallVector<Result> results;
};

} // namespace mlir::binade::attention

#endif // BINADE_LIB_IR_OPS_ATTENTIONTILES_H
