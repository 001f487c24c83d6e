//===- PassReports.h - Names of passes in bug reports -----------*- C++ -*-===//

#ifndef BINADE_LIB_PIPELINES_PASSREPORTS_H
#define BINADE_LIB_PIPELINES_PASSREPORTS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassInstrumentation.h"
#include <atomic>

namespace mlir::binade {

/// Makes the running pass the current activity, for crash reports, and reports
/// a pass that leaves an invalid module as a bug.
class PassReports : public PassInstrumentation {
public:
  explicit PassReports(MLIRContext *context);

  void runBeforePass(Pass *pass, Operation *op) override;
  void runAfterPass(Pass *pass, Operation *op) override;
  void runAfterPassFailed(Pass *pass, Operation *op) override;

private:
  /// Whether a verifier reported an error.
  std::atomic<bool> isVerifierError = false;
  ScopedDiagnosticHandler handler;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PIPELINES_PASSREPORTS_H
