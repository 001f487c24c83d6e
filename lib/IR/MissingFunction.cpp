//===- MissingFunction.cpp - Passes that run too early or late ------------===//

#include "binade/IR/MissingFunction.h"
#include "binade/IR/Exported.h"
#include "binade/IR/Interface.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace mlir::binade;

/// What phases write, in order, and the pipeline that writes it.
static constexpr std::pair<StringLiteral, StringLiteral> kStages[] = {
    {kForwardName, "binade-import-pipeline"},
    {kGradientName, "binade-autodiff-pipeline"},
    {kStepName, "binade-optimizer-pipeline"}};

InFlightDiagnostic mlir::binade::emitMissingFunction(ModuleOp module,
                                                     StringRef name,
                                                     StringRef purpose) {
  InFlightDiagnostic error = emitError(module.getLoc())
                             << "expected a function '@" << name << "' "
                             << purpose;
  const auto *needed = llvm::find_if(
      kStages, [&](const auto &stage) { return stage.first == name; });
  const auto *found = llvm::find_if(kStages, [&](const auto &stage) {
    return module.lookupSymbol(stage.first) != nullptr;
  });
  if (found == std::end(kStages)) {
    error << "; 'binade import' writes a module with '@" << kForwardName << "'";
  } else if (found > needed) {
    error << "; this module has '@" << found->first << "', which "
          << found->second << " wrote from it: run this pass before "
          << found->second;
  } else {
    error << "; this module has '@" << found->first << "': run ";
    for (const auto *stage = found + 1; stage <= needed; ++stage)
      error << (stage == found + 1 ? "" : " and ") << stage->second;
    error << " first";
  }
  return error;
}
