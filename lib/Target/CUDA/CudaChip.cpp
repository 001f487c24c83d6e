//===- CudaChip.cpp - Properties of chips ---------------------------------===//

#include "binade/Target/CUDA.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr StringLiteral kTargetPrefix = "cuda:";

/// The PTX version is the oldest one that has the instructions of kernels, so
/// that older drivers accept it.
static constexpr CudaChip kChips[] = {
    {"sm_80", "+ptx71", /*hasFloat8=*/false, /*hasBlocks=*/false,
     /*boundsRegisters=*/false},
    {"sm_89", "+ptx81", /*hasFloat8=*/true, /*hasBlocks=*/false,
     /*boundsRegisters=*/false},
    {"sm_90", "+ptx81", /*hasFloat8=*/true, /*hasBlocks=*/true,
     /*boundsRegisters=*/true},
    {"sm_100", "+ptx86", /*hasFloat8=*/true, /*hasBlocks=*/false,
     /*boundsRegisters=*/true},
};

ArrayRef<CudaChip> mlir::binade::getCudaChips() { return kChips; }

const CudaChip *mlir::binade::findCudaChip(StringRef name) {
  for (const CudaChip &chip : kChips)
    if (chip.name == name)
      return &chip;
  return nullptr;
}

FailureOr<const CudaChip *>
mlir::binade::getCudaChip(StringRef name,
                          function_ref<InFlightDiagnostic()> emitError) {
  if (const CudaChip *chip = findCudaChip(name))
    return chip;
  InFlightDiagnostic diag = emitError();
  diag << "unknown chip '" << name << "'; expected ";
  llvm::interleaveComma(kChips, diag,
                        [&](const CudaChip &chip) { diag << chip.name; });
  return diag;
}

std::string mlir::binade::getCudaTarget(const CudaChip &chip) {
  return (kTargetPrefix + chip.name).str();
}

std::vector<std::string> mlir::binade::getCudaTargets() {
  std::vector<std::string> targets;
  for (const CudaChip &chip : getCudaChips())
    targets.push_back(getCudaTarget(chip));
  return targets;
}

const CudaChip *mlir::binade::findCudaTarget(StringRef target) {
  return target.consume_front(kTargetPrefix) ? findCudaChip(target) : nullptr;
}
