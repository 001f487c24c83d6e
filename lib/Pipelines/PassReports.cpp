//===- PassReports.cpp - Names of passes in bug reports -------------------===//

#include "PassReports.h"
#include "binade/Container/Activity.h"
#include "binade/IR/InternalError.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include <memory>
#include <vector>

using namespace mlir;
using namespace mlir::binade;

/// The passes that this thread is running, innermost last.
static thread_local std::vector<std::unique_ptr<::binade::Activity>> running;

/// Whether an error begins as those of `emitOpError` do: `'binade.add' op ...`.
static bool isInWordsOfVerifier(Diagnostic &diagnostic) {
  return diagnostic.getSeverity() == DiagnosticSeverity::Error &&
         StringRef(diagnostic.str()).starts_with("'");
}

PassReports::PassReports(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        if (isInWordsOfVerifier(diagnostic))
          isVerifierError = true;
        return failure(); // Pass it on to the handler that prints it.
      }) {}

void PassReports::runBeforePass(Pass *pass, Operation *) {
  // The adaptor that runs passes on functions has no name.
  StringRef name = pass->getArgument();
  running.push_back(name.empty()
                        ? nullptr
                        : std::make_unique<::binade::Activity>("pass", name));
}

void PassReports::runAfterPass(Pass *, Operation *) { running.pop_back(); }

static bool isValid(Operation *op) {
  ScopedDiagnosticHandler silent(op->getContext(),
                                 [](Diagnostic &) { return success(); });
  return succeeded(verify(op));
}

/// A verifier that fails after a pass reports a bug of the pass. A pass that
/// rejects its input may leave an invalid module, too, but reports an error of
/// its own.
void PassReports::runAfterPassFailed(Pass *pass, Operation *op) {
  running.pop_back();
  if (isVerifierError && !isValid(op))
    emitInternalError(op->getLoc())
        << "pass '" << pass->getArgument() << "' left an invalid module";
}
