//===- EmitAttention.cpp - Attention as kernels ---------------------------===//
//
// One pass over the keys. The weighted sums of values are divided by the sums
// of exponentials at the end.
//
//===----------------------------------------------------------------------===//

#include "../EmitText.h"
#include "Gradients.h"
#include "OnlineSoftmax.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using enum AttentionBlock::Which;

namespace {
/// Emits the steps of a block.
class ForwardBlock {
public:
  explicit ForwardBlock(AttentionBlock &block)
      : block(block), b(block.b), sets(block.shape.sets),
        softmax(block, block.loadOwn(Query)) {}

  void emit();

private:
  SmallVector<Value> visitTile(ValueRange before, bool isMasked);
  void store(const Softmax &softmax);

  AttentionBlock &block;
  ImplicitLocOpBuilder &b;
  int64_t sets;
  OnlineSoftmax softmax;
};
} // namespace

SmallVector<Value> ForwardBlock::visitTile(ValueRange before, bool isMasked) {
  Softmax state(before, sets);
  OnlineSoftmax::Scores exponentials = softmax.visit(state, isMasked);
  for (auto [number, chunk] : llvm::enumerate(exponentials)) {
    auto index = static_cast<int64_t>(number);
    SmallVector<Value> weights;
    for (auto [set, own] : llvm::enumerate(chunk))
      weights.push_back(block.round(
          block.drop(own, block.drawKept(static_cast<int64_t>(set), index))));
    state.sums = block.unlessHidden(index, isMasked, state.sums, [&] {
      SmallVector<Value> sums = state.sums;
      block.addRows(weights, Values, index, sums);
      return sums;
    });
  }
  return state.pack();
}

void ForwardBlock::store(const Softmax &state) {
  // ln(2), in two parts: the product with a reference is rounded only once.
  constexpr float kHigh = std::numbers::ln2_v<float>;
  constexpr double kLow = std::numbers::ln2 - kHigh;
  const GpuAttention::Extras &extras = block.attention.extras;
  SmallVector<Value> results;
  size_t perSet = state.sums.size() / sets;
  for (int64_t set = 0; set < sets; ++set) {
    Value total = block.sumLanes(state.totals[set]),
          reference = state.references[set];
    Value inverse = arith::DivFOp::create(b, block.splat(1, 2), total);
    Value logarithm = math::LogOp::create(b, total), lse;
    if (extras.changeScores()) {
      lse = block.add(reference, logarithm);
    } else {
      lse = block.fma(reference, block.splat(kLow, 2), logarithm);
      lse = block.fma(reference, block.splat(kHigh, 2), lse);
    }
    // If all scores are -infinity, the sum is 0, and the result is NaN.
    lse = block.fma(inverse, block.splat(0, 2), lse);
    auto compareTotal = [&](arith::CmpFPredicate predicate) -> Value {
      return arith::CmpFOp::create(b, predicate, total, block.splat(0, 2));
    };
    if (extras.zeroHidden)
      lse = arith::SelectOp::create(b, compareTotal(arith::CmpFPredicate::UNE),
                                    lse, block.splat(-INFINITY, 2));
    block.storeRows(Lse, set, lse);
    if (extras.dropout)
      inverse = block.scale(inverse, block.getKeptFactor());
    Value ofRow[] = {vector::ExtractOp::create(b, inverse, int64_t(0)),
                     vector::ExtractOp::create(b, inverse, int64_t(1))};
    // Whether probabilities are not replaced by 0.
    Value isKept;
    if (extras.zeroNan || extras.zeroHidden)
      isKept = compareTotal(extras.zeroNan ? arith::CmpFPredicate::OGT
                                           : arith::CmpFPredicate::UNE);
    for (size_t i = 0; i < perSet; ++i) {
      int64_t row = i / 2 % 2;
      Value result = block.multiply(state.sums[set * perSet + i], ofRow[row]);
      if (isKept)
        result = arith::SelectOp::create(
            b, vector::ExtractOp::create(b, isKept, row), result,
            arith::ConstantOp::create(b, b.getF32FloatAttr(0)));
      results.push_back(result);
    }
  }
  block.storeSums(Y, results);
}

void ForwardBlock::emit() {
  SmallVector<Value> start = softmax.start();
  llvm::append_range(start, block.startSums(block.attention.width, sets));
  store(Softmax(block.forEachTile({Key, Values}, start,
                                  [&](ValueRange before, bool isMasked) {
                                    return visitTile(before, isMasked);
                                  }),
                sets));
  block.finish();
}

static void emitForward(ImplicitLocOpBuilder &b, const GpuAttention &attention,
                        StringRef name) {
  OpBuilder::InsertionGuard outside(b);
  bool areNarrow = std::max(attention.depth, attention.width) <= 64;
  AttentionBlock::Shape shape{.hasQueries = true, .blocks = areNarrow ? 3 : 2};
  if (attention.queries > 64)
    shape.sets = 2;
  if (attention.extras.needRegisters()) {
    shape.blocks = 2;
    if (!areNarrow)
      shape.sets = 1;
  }
  AttentionBlock block(b, attention, name, shape);
  ForwardBlock(block).emit();
}

std::string mlir::binade::printAttention(const GpuAttention &attention,
                                         StringRef name) {
  return printKernelModule([&](ImplicitLocOpBuilder &b) {
    if (!attention.areGradients())
      return emitForward(b, attention, name);
    emitQueryGradient(b, attention, name);
    std::string symbol = name.split('.').first.str();
    emitKeyGradients(b, attention, symbol + ".finish");
    for (size_t i = 0; i < attention.biasGradients.size(); ++i)
      emitBiasGradient(b, attention, i, symbol + ".bias" + std::to_string(i));
  });
}

int64_t mlir::binade::getWorkspaceBytes(const GpuAttention &attention) {
  if (!attention.areGradients())
    return 0;
  return AttentionBlock::countFactors(attention) *
         llvm::product_of(attention.batch) * attention.queries *
         int64_t(sizeof(float));
}
