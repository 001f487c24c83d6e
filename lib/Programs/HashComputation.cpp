//===- HashComputation.cpp - Hash of what a step computes -----------------===//

#include "Results.h"
#include "binade/Container/Sha256.h"
#include "binade/IR/Interface.h"
#include "binade/Programs/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_HASHCOMPUTATIONPASS
#include "binade/Programs/Passes.h.inc"

/// Returns `decision` without the rule that decided; null if everything is f32,
/// as without a decision.
static PrecisionAttr getWithoutRule(PrecisionAttr decision) {
  auto isWide = [](FloatType type) { return !type || type.isF32(); };
  if (isWide(decision.getCompute()) && isWide(decision.getAccumulate()) &&
      isWide(decision.getResult()) && !decision.getOperands() &&
      !decision.getClamp())
    return {};
  return PrecisionAttr::get(decision.getContext(), decision.getCompute(),
                            decision.getAccumulate(), decision.getResult(),
                            decision.getOperands(), decision.getTransform(),
                            decision.getAccumulation(), decision.getClamp(),
                            /*rule=*/nullptr);
}

/// Removes who decided, but keeps what is computed. Decisions about storage are
/// removed, because the types of ports show the storage formats.
static void eraseDecisions(ModuleOp module) {
  module.walk([](Operation *op) {
    for (NamedAttribute attribute : llvm::to_vector(op->getAttrs())) {
      if (isa<StorageAttr>(attribute.getValue()))
        op->removeAttr(attribute.getName());
      auto decision = dyn_cast<PrecisionAttr>(attribute.getValue());
      if (!decision)
        continue;
      if (PrecisionAttr bare = getWithoutRule(decision))
        op->setAttr(attribute.getName(), bare);
      else
        op->removeAttr(attribute.getName());
    }
  });
}

namespace {
struct HashComputationPass
    : impl::HashComputationPassBase<HashComputationPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OwningOpRef<ModuleOp> bare = module.clone();
    (*bare)->setDiscardableAttrs(DictionaryAttr::get(&getContext()));
    // Initial values do not affect what is computed from them.
    for (func::FuncOp program : getPrograms(*bare))
      removeInitialValues(program);
    eraseDecisions(*bare);
    std::string text;
    llvm::raw_string_ostream stream(text);
    bare->print(stream, OpPrintingFlags().useLocalScope());
    std::string hash = ::binade::sha256(std::as_bytes(std::span(text)));
    module->setAttr(kComputationAttr, StringAttr::get(&getContext(), hash));
  }
};
} // namespace
} // namespace mlir::binade
