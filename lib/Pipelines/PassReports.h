//===- PassReports.h - what passes do, and do wrong -------------*- C++ -*-===//

#ifndef BINADE_LIB_PIPELINES_PASSREPORTS_H
#define BINADE_LIB_PIPELINES_PASSREPORTS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassInstrumentation.h"
#include <atomic>

namespace mlir::binade {

/// Names the pass that runs, for the report of a crash, and says that it is a
/// bug if a pass leaves a module that its ops' verifiers refuse.
class PassReports : public PassInstrumentation {
public:
  explicit PassReports(MLIRContext *context);

  void runBeforePass(Pass *pass, Operation *op) override;
  void runAfterPass(Pass *pass, Operation *op) override;
  void runAfterPassFailed(Pass *pass, Operation *op) override;

private:
  /// Whether an error was reported in the words of a verifier.
  std::atomic<bool> isVerifierError = false;
  ScopedDiagnosticHandler handler;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PIPELINES_PASSREPORTS_H
