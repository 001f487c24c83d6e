//===- AttentionDecomposition.cpp - Attention as matmuls ------------------===//
//
// Decomposes attention and its gradients into tiles of matmuls and row
// reductions, of some samples, some heads or some queries at a time.
//
//===----------------------------------------------------------------------===//

#include "AttentionTiles.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::attention;

FailureOr<SmallVector<Value>> AttentionOp::decompose(ImplicitLocOpBuilder &b) {
  if (hasWholeKernel())
    return failure();
  AttentionMath math(*this, getComputeFormat(*this, getValue().getType()));
  Type result = getElementTypeOrSelf(getY().getType());
  AttentionTiles tiles(*this);
  tiles.addOperand(getQuery(), /*perQuery=*/true);
  tiles.addOperand(getKey(), /*perQuery=*/false);
  tiles.addOperand(getValue(), /*perQuery=*/false);
  tiles.addResult(getY(), /*perQuery=*/true);
  tiles.addResult(getLse(), /*perQuery=*/true);
  return tiles.build(
      b,
      [&](ImplicitLocOpBuilder &b, ValueRange operands, const Extras &extras,
          Value positions) -> SmallVector<Value> {
        Scores scores =
            math.buildScores(b, operands[0], operands[1], extras, positions);
        auto [p, lse] = math.buildSoftmax(b, scores.scores);
        Value weights = math.buildWeights(b, p, extras);
        return {math.multiply(b, weights, operands[2], false, false, result),
                lse};
      });
}

FailureOr<SmallVector<Value>>
AttentionGradOp::decompose(ImplicitLocOpBuilder &b) {
  if (hasWholeKernel())
    return failure();
  AttentionMath math(*this, getComputeFormat(*this, getQuery().getType()));
  bool isShared = countSharers(getQuery(), getKey()) > 1;
  AttentionTiles tiles(*this);
  for (Value x : std::initializer_list<Value>{getGradient(), getQuery(), getY(),
                                              getLse()})
    tiles.addOperand(x, /*perQuery=*/true);
  for (Value x : std::initializer_list<Value>{getKey(), getValue()})
    tiles.addOperand(x, /*perQuery=*/false);
  tiles.addResult(getDquery(), /*perQuery=*/true);
  tiles.addResult(getDkey(), /*perQuery=*/false);
  tiles.addResult(getDvalue(), /*perQuery=*/false);
  // Masks are biases whose gradients are not used.
  SmallVector<unsigned> wanted;
  for (auto [index, result] : llvm::enumerate(getDbiases()))
    if (!result.use_empty()) {
      wanted.push_back(index);
      tiles.addResult(result, /*perQuery=*/true, getBiases()[index]);
    }
  auto body = [&](ImplicitLocOpBuilder &b, ValueRange operands,
                  const Extras &extras, Value positions) -> SmallVector<Value> {
    Value dy = operands[0], query = operands[1], y = operands[2];
    Value key = operands[4], value = operands[5];
    Scores scores = math.buildScores(b, query, key, extras, positions);
    Value p = math.rebuildSoftmax(b, scores.scores, operands[3]);
    int64_t last = getTensor(p).getRank() - 1;
    // Partial gradients of keys, which are summed over tiles of queries or over
    // heads, stay f32.
    auto ofKeys = [&](Value whole) {
      return positions || isShared ? Type(b.getF32Type())
                                   : getElementTypeOrSelf(whole.getType());
    };
    Value dvalue = math.multiply(b, math.buildWeights(b, p, extras), dy, true,
                                 false, ofKeys(getDvalue()));
    Value dp = math.multiply(b, dy, value, false, true, b.getF32Type());
    dp = math.buildDropped(b, dp, extras);
    Value inner =
        ReduceSumOp::create(b,
                            MulOp::create(b, buildCast(b, dy, b.getF32Type()),
                                          buildCast(b, y, b.getF32Type())),
                            last);
    Value ds =
        MulOp::create(b, p, SubOp::create(b, dp, broadcastRows(b, inner, dp)));
    if (extras.mask)
      ds = SelectOp::create(
          b, broadcastUnits(b, extras.mask, getTensor(ds).getShape()), ds,
          buildSplat(b, ds.getType(), 0.0));
    SmallVector<Value> dbiases;
    for (unsigned index : wanted)
      dbiases.push_back(sumBroadcast(b, ds, extras.biases[index]));
    ds = math.buildProductGradients(b, ds, scores.tangent);
    SmallVector<Value> parts = {
        math.multiply(b, ds, key, false, false,
                      getElementTypeOrSelf(getDquery().getType())),
        math.multiply(b, ds, query, true, false, ofKeys(getDkey())), dvalue};
    llvm::append_range(parts, dbiases);
    return parts;
  };
  SmallVector<Value> built = tiles.build(b, body);
  SmallVector<Value> results(built.begin(), built.begin() + 3);
  results.resize(getNumResults());
  for (auto [index, value] :
       llvm::zip_equal(wanted, ArrayRef(built).drop_front(3)))
    results[3 + index] = buildCast(
        b, value, getElementTypeOrSelf(getDbiases()[index].getType()));
  for (auto [value, result] : llvm::zip(results, getResults()))
    if (!value)
      value = buildSplat(b, result.getType(), 0.0);
  return results;
}
