//===- PhaseKeeper.h - Copy the phase of a replaced op ----------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_FUSION_PHASEKEEPER_H
#define BINADE_LIB_KERNELS_FUSION_PHASEKEEPER_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// Copies the phase of the op that is replaced to the ops that replace it, and
/// its fallback, if any, to those that are library calls.
struct PhaseKeeper : OpBuilder::Listener {
  Phase phase = Phase::Forward;
  std::optional<Fallback> fallback;

  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    if (!op->hasTrait<OpTrait::ConstantLike>())
      setPhase(op, phase);
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    if (fallback && kernelOp && kernelOp.getSchedule() == Schedule::Library)
      setFallback(op, *fallback);
  }
};

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_FUSION_PHASEKEEPER_H
