//===- Phase.cpp - The phases of the compiler, in order -------------------===//

#include "binade/Pipelines/Phase.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir::binade;

static constexpr PhaseDescription kPhases[] = {
    {CompilerPhase::Import, "import", "the forward graph as binade ops"},
    {CompilerPhase::Autodiff, "autodiff", "forward and backward"},
    {CompilerPhase::Optimizer, "optimizer",
     "a whole training step in f32, the reference of all later phases"},
    {CompilerPhase::Assign, "assign", "formats as decisions on the ops"},
    {CompilerPhase::Materialize, "materialize",
     "formats as types, casts and loss scaling as ops"},
    {CompilerPhase::Programs, "programs",
     "the other programs: accumulation over batches and evaluation"},
    {CompilerPhase::Monitor, "monitor",
     "requested statistics of values, as ops"},
    {CompilerPhase::Kernels, "kernels", "launches, library calls and kernels"},
    {CompilerPhase::Plan, "plan", "buffers and records, as JSON"},
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
