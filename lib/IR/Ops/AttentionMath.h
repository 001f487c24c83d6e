//===- AttentionMath.h - Scores and probabilities ---------------*- C++ -*-===//

#ifndef BINADE_LIB_IR_OPS_ATTENTIONMATH_H
#define BINADE_LIB_IR_OPS_ATTENTIONMATH_H

#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"
#include "binade/IR/QuantizedOperands.h"

namespace mlir::binade::attention {

/// Broadcasts `x` along its axes of size 1 to `shape`.
Value broadcastUnits(ImplicitLocOpBuilder &b, Value x, ArrayRef<int64_t> shape);

/// Sums `x` over the axes along which `like` is broadcast to its shape.
Value sumBroadcast(ImplicitLocOpBuilder &b, Value x, Value like);

/// Broadcasts `x`, whose axes are all but the last of `like`, to the shape of
/// `like`.
Value broadcastRows(ImplicitLocOpBuilder &b, Value x, Value like);

/// Biases, mask and dropout of an op, or their pieces in the body of a tile.
struct Extras {
  SmallVector<Value> biases;
  Value mask; ///< May be null.
  Value rows; ///< The index of each query among all of all heads; may be null.
  Value rng;  ///< May be null.

  SmallVector<Value> list() const {
    SmallVector<Value> values(biases);
    for (Value x : {mask, rows, rng})
      if (x)
        values.push_back(x);
    return values;
  }
  /// Returns the pieces of these values, in the order of `list`.
  Extras getPieces(ValueRange pieces) const {
    Extras own;
    own.biases = llvm::to_vector(pieces.take_front(biases.size()));
    pieces = pieces.drop_front(biases.size());
    for (auto [whole, piece] :
         {std::pair(mask, &own.mask), std::pair(rows, &own.rows),
          std::pair(rng, &own.rng)})
      if (whole) {
        *piece = pieces.front();
        pieces = pieces.drop_front();
      }
    return own;
  }
  /// Returns biases and mask.
  SmallVector<Value> listBroadcast() const {
    SmallVector<Value> values(biases);
    if (mask)
      values.push_back(mask);
    return values;
  }
};

struct Scores {
  Value scores;
  Value tangent; ///< tanh of the scores before the soft cap; null without one.
};

/// The attributes of an attention op, and the ops that depend on them.
class AttentionMath {
public:
  template <typename Op>
  AttentionMath(Op op, FloatType compute)
      : compute(compute), precision(getMultiplied(op.getPrecisionAttr())),
        scale(op.getScale().convertToDouble()),
        softcap(op.getSoftcap().convertToDouble()),
        fill(op.getFill().convertToDouble()), causal(op.getCausal()),
        zeroHidden(op.getZeroHidden()), zeroNaN(op.getZeroNan()),
        ratio(op.getRatio()), stream(op.getStream()),
        isExact(op.getBiases().empty() && (!op.getMask() || std::isinf(fill))) {
  }

  Scores buildScores(ImplicitLocOpBuilder &b, Value query, Value key,
                     const Extras &extras, Value positions) const;
  /// Returns the probabilities and the logarithm of the sum of exponentials.
  std::pair<Value, Value> buildSoftmax(ImplicitLocOpBuilder &b,
                                       Value scores) const;
  /// Returns the probabilities that the backward pass reads.
  Value rebuildSoftmax(ImplicitLocOpBuilder &b, Value scores, Value lse) const;
  /// Returns the probabilities that multiply the values.
  Value buildWeights(ImplicitLocOpBuilder &b, Value p,
                     const Extras &extras) const;
  /// Returns `x` with the elements of dropped probabilities set to 0.
  Value buildDropped(ImplicitLocOpBuilder &b, Value x,
                     const Extras &extras) const;
  /// Returns the gradients of the products of queries and keys, from those of
  /// the scores.
  Value buildProductGradients(ImplicitLocOpBuilder &b, Value ds,
                              Value tangent) const;
  Value multiply(ImplicitLocOpBuilder &b, Value lhs, Value rhs,
                 bool transposeLhs, bool transposeRhs, Type element) const;
  Value round(ImplicitLocOpBuilder &b, Value x) const {
    return buildRounded(b, x, compute);
  }

private:
  static Value scaleBy(ImplicitLocOpBuilder &b, Value x, double factor) {
    return MulOp::create(b, x, buildSplat(b, x.getType(), factor));
  }
  static Value zeroWhere(ImplicitLocOpBuilder &b, Value condition, Value x) {
    return SelectOp::create(b, condition, buildSplat(b, x.getType(), 0.0), x);
  }

  FloatType compute;
  PrecisionAttr precision;
  double scale, softcap, fill;
  bool causal, zeroHidden, zeroNaN;
  APFloat ratio;
  int64_t stream;
  /// Whether scores are so small that `lse` gives exact probabilities. A bias
  /// or a fill may be a huge number that is all that a row consists of.
  bool isExact;
};

} // namespace mlir::binade::attention

#endif // BINADE_LIB_IR_OPS_ATTENTIONMATH_H
