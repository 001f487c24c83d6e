//===- EmitKernel.cpp - Emission of loops for one kernel ------------------===//

#include "binade/Codegen/EmitKernel.h"
#include "Loops/Reduction.h"
#include "Loops/Schedules.h"
#include "binade/IR/Accuracy.h"
#include "binade/IR/Batches.h"
#include "binade/IR/Interface.h"
#include "binade/IR/ReadsNeighbors.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace mlir::binade;

static bool isEmpty(Value value) {
  return getTensor(value).getNumElements() == 0;
}

/// Replaces reductions of empty tensors by their neutral element.
static void foldEmptyReductions(func::FuncOp function) {
  for (Operation &op : function.front()) {
    auto reduction = Reduction::from(&op);
    if (!reduction || !isEmpty(reduction->getInput()))
      continue;
    ImplicitLocOpBuilder b(op.getLoc(), &op);
    RankedTensorType type = getTensor(reduction->getResult());
    Attribute neutral =
        FloatAttr::get(type.getElementType(), reduction->getNeutral());
    op.getResult(0).replaceAllUsesWith(
        ConstantOp::create(b, DenseElementsAttr::get(type, neutral)));
  }
}

/// Decomposes ops until only primitives are left.
static void decompose(func::FuncOp function) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Operation &op :
         llvm::make_early_inc_range(function.front().without_terminator())) {
      auto kernelOp = dyn_cast<KernelOpInterface>(op);
      if (!kernelOp)
        continue;
      AccuracyKeeper keeper(&op);
      ImplicitLocOpBuilder b(op.getLoc(), &op, &keeper);
      FailureOr<SmallVector<Value>> parts = kernelOp.decompose(b);
      if (failed(parts))
        continue;
      op.replaceAllUsesWith(*parts);
      op.erase();
      changed = true;
    }
  }
  foldEmptyReductions(function);
  // Folds views of views and removes dead ops; no value changes.
  (void)applyPatternsGreedily(function, FrozenRewritePatternSet());
  IRRewriter rewriter(function.getContext());
  DominanceInfo dominance(function);
  eliminateCommonSubExpressions(rewriter, dominance, function);
}

/// Whether `op` depends on the result of a reduction.
static bool readsReduction(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return producer && (Reduction::from(producer) || readsReduction(producer));
  });
}

/// Whether a result with as many elements as the operand of the reduction
/// depends on a reduction.
static bool hasLateResults(func::FuncOp function, const Loops &loops) {
  return llvm::any_of(
      function.front().getTerminator()->getOperands(), [&](Value result) {
        Operation *producer = result.getDefiningOp();
        return producer &&
               getTensor(result).getNumElements() == loops.getElements() &&
               readsReduction(producer);
      });
}

static FailureOr<KernelInfo> emit(const KernelSource &source,
                                  Schedule schedule) {
  if (schedule == Schedule::MultiTensor)
    return emitMultiTensor(source);
  if (schedule == Schedule::Scatter)
    return emitScatter(source);
  if (schedule == Schedule::Statistics)
    return emitStatistics(source);
  if (llvm::all_of(source.getResults(), isEmpty))
    return emitNothing(source);
  func::FuncOp function = source.function;
  bool onlyNumbers = llvm::all_of(source.getResults(), [](Value result) {
    return getTensor(result).getRank() == 0;
  });
  if (schedule == Schedule::Scalars && onlyNumbers)
    return emitScalars(source);
  std::optional<Loops> loops;
  bool isChain = false, leavesColumns = false, leavesRows = false;
  for (Operation &op : function.front())
    if (auto reduction = Reduction::from(&op)) {
      loops = reduction->getLoops();
      isChain |= readsReduction(&op);
      bool isOfColumns = reduction->leavesColumns();
      leavesColumns |= isOfColumns;
      leavesRows |= !isOfColumns && !isa<GroupMaxOp>(op);
    }
  if (leavesColumns && leavesRows)
    return emitRows(source);
  if (leavesColumns)
    return emitColumns(source);
  // A reduction that depends on another one is computed by one work item.
  bool isFull = loops && loops->getKept() == 1 && !isChain &&
                !hasLateResults(function, *loops);
  if (source.shape && (isFull || !loops))
    if (std::optional<Matrices> matrices = findTransposedResults(source))
      return emitTransposedCopy(source, *matrices);
  // The same holds for tensors with few elements.
  bool isLarge = loops && loops->getElements() > 2 * kTaskElements;
  return isFull && isLarge ? emitFull(source) : emitRows(source);
}

static FailureOr<KernelInfo> emitKernel(func::FuncOp kernel, ModuleOp into,
                                        std::optional<GpuShape> shape) {
  auto schedule = kernel->getAttrOfType<ScheduleAttr>(kKernelAttr);
  if (!schedule || kernel.isExternal())
    return kernel.emitError("function '@")
           << kernel.getName()
           << "' is not a kernel; expected a body and the attribute "
           << kKernelAttr;
  for (TypeRange types : {kernel.getArgumentTypes(), kernel.getResultTypes()})
    for (Type type : types) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor || !tensor.hasStaticShape())
        return kernel.emitError("kernel '@")
               << kernel.getName() << "' expects tensors of static shape, got "
               << type;
    }
  OwningOpRef<func::FuncOp> body(kernel.clone());
  bool readsNeighbors =
      llvm::any_of(kernel.front().without_terminator(),
                   [](Operation &op) { return op.hasTrait<ReadsNeighbors>(); });
  decompose(*body);
  if (shape)
    shape->isMultiTensor = shape->isBatched = kernel->hasAttr(kBatchedAttr);
  KernelSource source = {*body, kernel->getParentOfType<ModuleOp>(),
                         into,  kernel.getName().str(),
                         shape, readsNeighbors};
  FailureOr<KernelInfo> info = emit(source, schedule.getValue());
  if (succeeded(info) && source.shape && source.shape->isBatched &&
      info->workspaceBytes > 0)
    return kernel.emitError("kernel '@")
           << kernel.getName() << "' needs a workspace, but has the attribute "
           << kBatchedAttr;
  return info;
}

FailureOr<KernelInfo> mlir::binade::emitKernel(func::FuncOp kernel,
                                               ModuleOp into) {
  return ::emitKernel(kernel, into, std::nullopt);
}

FailureOr<KernelInfo> mlir::binade::emitGpuKernel(func::FuncOp kernel,
                                                  ModuleOp into) {
  return ::emitKernel(kernel, into, GpuShape());
}
