//===- EmitKernel.cpp - loops for one kernel ------------------------------===//

#include "binade/Conversion/EmitKernel.h"
#include "Kernel/Reduction.h"
#include "Kernel/Schedules.h"
#include "binade/IR/Interface.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace mlir::binade;

SmallVector<Value> KernelSource::getResults() const {
  func::FuncOp f = function;
  return llvm::to_vector(f.front().getTerminator()->getOperands());
}

SmallVector<Type> KernelSource::getBuffers(int64_t workspace) const {
  func::FuncOp f = function;
  SmallVector<Type> buffers;
  for (TypeRange types : {f.getArgumentTypes(), f.getResultTypes()})
    for (Type type : types) {
      auto tensor = cast<RankedTensorType>(type);
      buffers.push_back(MemRefType::get(
          {tensor.getNumElements()}, getStorageType(tensor.getElementType())));
    }
  if (workspace > 0)
    buffers.push_back(
        MemRefType::get({workspace}, IntegerType::get(f.getContext(), 8)));
  return buffers;
}

bool KernelSource::hasIndices() const {
  func::FuncOp f = function;
  return !f.front().getOps<GatherOp>().empty() ||
         !f.front().getOps<GatherGradOp>().empty();
}

/// Replaces ops by their primitives until only those are left.
static void decompose(func::FuncOp function) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Operation &op :
         llvm::make_early_inc_range(function.front().without_terminator())) {
      auto kernelOp = dyn_cast<KernelOpInterface>(op);
      if (!kernelOp)
        continue;
      ImplicitLocOpBuilder b(op.getLoc(), &op);
      FailureOr<SmallVector<Value>> parts = kernelOp.decompose(b);
      if (failed(parts))
        continue;
      op.replaceAllUsesWith(*parts);
      op.erase();
      changed = true;
    }
  }
  // Folds views of views and drops what nobody reads; changes no value.
  (void)applyPatternsGreedily(function, FrozenRewritePatternSet());
  IRRewriter rewriter(function.getContext());
  DominanceInfo dominance(function);
  eliminateCommonSubExpressions(rewriter, dominance, function);
}

static FailureOr<KernelInfo> emit(const KernelSource &source,
                                  Schedule schedule) {
  if (schedule == Schedule::MultiTensor)
    return emitManyTensors(source);
  bool onlyNumbers = llvm::all_of(source.getResults(), [](Value result) {
    return getTensor(result).getRank() == 0;
  });
  if (schedule == Schedule::Scalars && onlyNumbers)
    return emitScalars(source);
  return emitRows(source);
}

FailureOr<KernelInfo> mlir::binade::emitKernel(func::FuncOp kernel,
                                               ModuleOp into) {
  auto schedule = kernel->getAttrOfType<ScheduleAttr>(kKernelAttr);
  if (!schedule || kernel.isExternal())
    return kernel.emitError("function '@")
           << kernel.getName() << "' is not a kernel: it needs a body and "
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
  decompose(*body);
  KernelSource source = {*body, kernel->getParentOfType<ModuleOp>(), into,
                         kernel.getName().str()};
  return emit(source, schedule.getValue());
}
