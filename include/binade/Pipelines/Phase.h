//===- Phase.h - The phases of the compiler, in order -----------*- C++ -*-===//

#ifndef BINADE_PIPELINES_PHASE_H
#define BINADE_PIPELINES_PHASE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace mlir::binade {

/// The phases at which a compilation may stop (`--to`) and start (`--from`). Up
/// to `kernels` the result is a module as text; that of `plan` is JSON, that of
/// `target` a bundle.
enum class CompilerPhase {
  Import,
  Autodiff,
  Optimizer,
  Assign,
  Materialize,
  Programs,
  Monitor,
  Kernels,
  Plan,
  Target,
};

struct PhaseDescription {
  CompilerPhase phase;
  llvm::StringRef name;
  /// A phrase that describes the result of the phase.
  llvm::StringRef summary;
};

/// All phases in order.
llvm::ArrayRef<PhaseDescription> getPhases();
llvm::StringRef getName(CompilerPhase phase);
std::optional<CompilerPhase> parsePhase(llvm::StringRef name);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_PHASE_H
