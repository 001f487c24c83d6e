//===- SplitReductions.cpp - Reductions of small tensors by rows ----------===//
//
// An optimizer may need a norm of each parameter: a hundred full reductions,
// each of which is a kernel and another one that combines its partial results.
// Reductions of rows, and of what these leave, are kernels without a second
// one, which binade-batch-launches executes for all parameters at once.
//
//===----------------------------------------------------------------------===//

#include "Batching.h"
#include "Grouping.h"
#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Watch.h"
#include "binade/Kernels/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_SPLITREDUCTIONSPASS
#include "binade/Kernels/Passes.h.inc"

/// Bounds of the length of a row, which a block of threads reduces.
static constexpr int64_t kMinColumns = 256, kMaxColumns = 4096;

/// Adds the tensors of as many elements as `value` that it is computed from.
/// Returns false if one of them is not an argument of the program.
static bool findSources(Value value, llvm::SmallSetVector<Value, 2> &sources) {
  Operation *producer = value.getDefiningOp();
  if (!producer) {
    sources.insert(value);
    return true;
  }
  auto kernelOp = dyn_cast<KernelOpInterface>(producer);
  bool isComputed = isa<ElementwiseOpInterface>(producer) && kernelOp &&
                    kernelOp.getSchedule() == Schedule::Elementwise;
  if (!isComputed && !isView(producer) && !isRecomputed(producer))
    return false;
  return llvm::all_of(producer->getOperands(), [&](Value operand) {
    return getNumElements(operand) < getNumElements(value) ||
           findSources(operand, sources);
  });
}

/// Whether `op` reduces all elements of a small tensor that is known when the
/// program starts.
static bool isSmall(Operation &op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  if (!kernelOp || kernelOp.getSchedule() != Schedule::FullReduction ||
      op.getNumOperands() != 1 || op.getNumResults() != 1 ||
      !op.hasAttr(kAxes) || findEvery(&op))
    return false;
  // Partial results of fewer bits would be rounded.
  Type element = getTensor(op.getResult(0)).getElementType();
  Value x = op.getOperand(0);
  llvm::SmallSetVector<Value, 2> sources;
  if (!(element.isF32() || element.isF64()) || getNumElements(x) <= kOneItem ||
      (x.getDefiningOp() && !x.hasOneUse()) || !findSources(x, sources))
    return false;
  uint64_t bytes = 0;
  for (Value source : sources)
    bytes += getByteSize(source.getType());
  return bytes <= kSmallLaunch;
}

/// Returns the length of the rows into which `elements` are divided; 0 if no
/// length is suitable.
static int64_t chooseColumns(int64_t elements) {
  for (int64_t columns = kMaxColumns; columns >= kMinColumns; columns /= 2)
    if (elements % columns == 0 && elements / columns <= kOneItem)
      return columns;
  return 0;
}

static void split(Operation *op, int64_t columns) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  Value x = op->getOperand(0);
  int64_t rows = getNumElements(x) / columns;
  auto reduce = [&](Value operand, int64_t axis, ArrayRef<int64_t> shape) {
    Operation *part = b.clone(*op);
    part->setOperand(0, operand);
    part->setAttr(kAxes, b.getDenseI64ArrayAttr({axis}));
    Value result = part->getResult(0);
    result.setType(getTensor(result).clone(shape));
    return result;
  };
  Value view = buildReshape(b, x, {rows, columns});
  if (Operation *made = view.getDefiningOp(); made && view != x)
    setPhase(made, getPhase(op));
  Value ofRows = reduce(view, 1, {rows});
  op->replaceAllUsesWith(ValueRange(reduce(ofRows, 0, {})));
  op->erase();
}

namespace {
struct SplitReductionsPass
    : impl::SplitReductionsPassBase<SplitReductionsPass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      if (getTarget(program))
        run(program.front());
  }

private:
  /// A reduction that is the only one of its kind is as fast in one kernel.
  static void run(Block &block) {
    llvm::MapVector<std::pair<OperationName, Type>, SmallVector<Operation *>>
        kinds;
    for (Operation &op : block)
      if (isSmall(op))
        kinds[{op.getName(), op.getOperand(0).getType()}].push_back(&op);
    for (auto &[kind, ops] : kinds)
      if (int64_t columns =
              chooseColumns(getNumElements(ops[0]->getOperand(0)));
          columns > 0 && ops.size() > 1)
        for (Operation *op : ops)
          split(op, columns);
  }
};
} // namespace
} // namespace mlir::binade
