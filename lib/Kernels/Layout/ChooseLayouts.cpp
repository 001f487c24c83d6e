//===- ChooseLayouts.cpp - Layouts that ops prefer ------------------------===//
//
// One traversal in program order changes ops in place: each result remains the
// same SSA value, and its type lists the axes in the order of its layout. For
// users that need another layout, one copy per layout is inserted right after
// the value. A value that is recomputed at no cost, such as a constant, is
// computed in that layout instead.
//
//===----------------------------------------------------------------------===//

#include "binade/IR/Interface.h"
#include "binade/Kernels/Passes.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include <map>

namespace mlir::binade {
#define GEN_PASS_DEF_CHOOSELAYOUTSPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
/// Chooses and applies the layouts of a block's values.
class LayoutChooser {
public:
  void run(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      Layouts known(&op);
      for (auto [operand, layout] : llvm::zip(op.getOperands(), known.operands))
        layout = layoutOf.lookup(operand);
      apply(&op, choose(&op, known));
    }
  }

private:
  /// Returns the layouts in which `op` computes, given those that are `known`.
  static Layouts choose(Operation *op, const Layouts &known) {
    auto layoutOp = dyn_cast<LayoutOpInterface>(op);
    if (!layoutOp)
      return Layouts(op);
    Layouts chosen = layoutOp.chooseLayouts(known);
    for (auto *side : {&chosen.operands, &chosen.results})
      for (Layout &layout : *side)
        if (isIdentityPermutation(layout))
          layout.clear();
    return chosen;
  }

  /// Rewrites `op`, whose types and attributes are row-major, for the chosen
  /// layouts.
  void apply(Operation *op, const Layouts &chosen) {
    for (auto [operand, layout] :
         llvm::zip(op->getOpOperands(), chosen.operands))
      operand.set(get(operand.get(), layout, getPhase(op)));
    for (auto [result, layout] : llvm::zip(op->getResults(), chosen.results)) {
      if (layout.empty())
        continue;
      auto type = cast<RankedTensorType>(result.getType());
      result.setType(type.clone(reorder(layout, type.getShape())));
      layoutOf[result] = layout;
    }
    if (auto layoutOp = dyn_cast<LayoutOpInterface>(op))
      layoutOp.applyLayouts(chosen);
  }

  /// Returns `value` in the layout `wanted`, for a user of `phase`.
  Value get(Value value, const Layout &wanted, Phase phase) {
    if (layoutOf.lookup(value) == wanted)
      return value;
    if (Value copy = copies[value][wanted])
      return copy;
    Value copy = recompute(value, wanted);
    if (!copy)
      copy = permute(value, wanted, phase);
    return copies[value][wanted] = copy;
  }

  /// Clones the producer of a recomputed value so that it computes the layout
  /// `wanted`; returns null if it cannot.
  Value recompute(Value value, const Layout &wanted) {
    auto producer = value.getDefiningOp<KernelOpInterface>();
    if (!producer || !producer.isRecomputed() || layoutOf.contains(value))
      return {};
    Layouts known(producer);
    known.results.front() = wanted;
    Layouts chosen = choose(producer, known);
    if (chosen.results.front() != wanted)
      return {};
    OpBuilder b(producer->getContext());
    b.setInsertionPointAfter(producer);
    Operation *clone = b.clone(*producer);
    apply(clone, chosen);
    return clone->getResult(0);
  }

  /// Transposes `value` to the layout `wanted`. A reshape is enough if all axes
  /// that move have length 1.
  Value permute(Value value, const Layout &wanted, Phase phase) {
    auto type = cast<RankedTensorType>(value.getType());
    Layout from = layoutOf.lookup(value);
    SmallVector<int64_t> permutation, longAxes;
    for (int64_t axis = 0; axis < type.getRank(); ++axis)
      permutation.push_back(
          findAxis(from, wanted.empty() ? axis : wanted[axis]));
    llvm::copy_if(permutation, std::back_inserter(longAxes),
                  [&](int64_t axis) { return type.getDimSize(axis) != 1; });

    ImplicitLocOpBuilder b(value.getLoc(), value.getContext());
    b.setInsertionPointAfterValue(value);
    Value copy;
    if (llvm::is_sorted(longAxes))
      copy = ReshapeOp::create(
          b, type.clone(applyPermutation(type.getShape(), permutation)), value);
    else
      copy = TransposeOp::create(b, value, permutation);
    Operation *producer = value.getDefiningOp();
    setPhase(copy.getDefiningOp(), producer ? getPhase(producer) : phase);
    return copy;
  }

  /// The layouts of values that are not row-major.
  DenseMap<Value, Layout> layoutOf;
  /// Copies of values in other layouts.
  DenseMap<Value, std::map<Layout, Value>> copies;
};

struct ChooseLayoutsPass : impl::ChooseLayoutsPassBase<ChooseLayoutsPass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      LayoutChooser().run(program.front());
  }
};
} // namespace
} // namespace mlir::binade
