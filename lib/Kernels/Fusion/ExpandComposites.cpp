//===- ExpandComposites.cpp - Decompose ops into calls and kernels --------===//

#include "PhaseKeeper.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/MissingFunction.h"
#include "binade/Kernels/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_EXPANDCOMPOSITESPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
struct ExpandCompositesPass
    : impl::ExpandCompositesPassBase<ExpandCompositesPass> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> programs = getPrograms(getOperation());
    if (programs.empty()) {
      emitMissingFunction(getOperation(), kStepName, "to expand");
      return signalPassFailure();
    }
    for (func::FuncOp program : programs)
      expand(program);
  }

private:
  static void expand(func::FuncOp program) {
    PhaseKeeper keeper;
    ImplicitLocOpBuilder b(program.getLoc(), program.getContext());
    b.setListener(&keeper);
    program.walk([&](KernelOpInterface op) {
      if (op.getSchedule() != Schedule::Library)
        return;
      b.setInsertionPoint(op);
      b.setLoc(op.getLoc());
      keeper.phase = getPhase(op);
      auto decided = dyn_cast<PrecisionOpInterface>(*op);
      keeper.fallback = decided ? decided.findFallback() : std::nullopt;
      FailureOr<SmallVector<Value>> parts = op.decompose(b);
      if (failed(parts)) {
        if (keeper.fallback)
          setFallback(op, *keeper.fallback);
        return;
      }
      op->replaceAllUsesWith(*parts);
      op->erase();
    });
  }
};
} // namespace
} // namespace mlir::binade
