//===- PassReports.cpp - What passes do, and do wrong ---------------------===//

#include "PassReports.h"
#include "binade/Container/Activity.h"
#include "binade/IR/InternalError.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include <memory>
#include <vector>

using namespace mlir;
using namespace mlir::binade;

/// Passes that this thread runs, one in the other.
static thread_local std::vector<std::unique_ptr<::binade::Activity>> running;

/// As `emitOpError` begins: `'binade.add' op ...`.
static bool isInWordsOfVerifier(Diagnostic &diagnostic) {
  return diagnostic.getSeverity() == DiagnosticSeverity::Error &&
         StringRef(diagnostic.str()).starts_with("'");
}

PassReports::PassReports(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        if (isInWordsOfVerifier(diagnostic))
          isVerifierError = true;
        return failure(); // Whoever prints it sees it too.
      }) {}

void PassReports::runBeforePass(Pass *pass, Operation *) {
  // What runs passes on functions is a pass without a name.
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

/// Verifiers run after passes, which do not hear of it. A pass that refuses its
/// input may leave an invalid module too, but in words of its own.
void PassReports::runAfterPassFailed(Pass *pass, Operation *op) {
  running.pop_back();
  if (isVerifierError && !isValid(op))
    emitInternalError(op->getLoc())
        << "pass '" << pass->getArgument() << "' left an invalid module";
}
