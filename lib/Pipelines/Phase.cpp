//===- Phase.cpp - The phases of the compiler, in order -------------------===//

#include "binade/Pipelines/Phase.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir::binade;

static constexpr PhaseDescription kPhases[] = {
    {CompilerPhase::Import, "import",
     "the forward graph as ops of the binade dialect"},
    {CompilerPhase::Autodiff, "autodiff", "the forward and the backward pass"},
    {CompilerPhase::Optimizer, "optimizer",
     "a whole training step in f32, the reference of all later phases"},
    {CompilerPhase::Assign, "assign",
     "the format of each value, as an attribute of its op"},
    {CompilerPhase::Materialize, "materialize",
     "the formats as types of values, with ops for casts and loss scaling"},
    {CompilerPhase::Programs, "programs",
     "functions for accumulation over batches and for evaluation, in addition "
     "to the step"},
    {CompilerPhase::Monitor, "monitor",
     "ops that compute the requested statistics of values"},
    {CompilerPhase::Kernels, "kernels",
     "kernels, their launches, and library calls"},
    {CompilerPhase::Plan, "plan",
     "the plan as JSON: buffers, kernel launches and library calls"},
    {CompilerPhase::Target, "target", "a bundle with machine code"},
};

llvm::ArrayRef<PhaseDescription> mlir::binade::getPhases() { return kPhases; }

llvm::StringRef mlir::binade::getName(CompilerPhase phase) {
  return kPhases[static_cast<unsigned>(phase)].name;
}

std::optional<CompilerPhase> mlir::binade::parsePhase(llvm::StringRef name) {
  for (const PhaseDescription &description : kPhases)
    if (description.name == name)
      return description.phase;
  return std::nullopt;
}
