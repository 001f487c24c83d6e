//===- Diagnostics.cpp - Errors in the driver's words ---------------------===//

#include "Diagnostics.h"
#include "ExitCode.h"
#include "binade/IR/Diagnostics.h"
#include <iostream>

using namespace mlir;

Diagnostics::Diagnostics(MLIRContext &context, std::string file,
                         ::binade::DiagnosticFormat format)
    : file(std::move(file)), format(format),
      handler(&context, [this](Diagnostic &diagnostic) {
        print(diagnostic);
        return success();
      }) {
  // Print only the location of an op, since its text may be long.
  context.printOpOnDiagnostic(false);
}

void Diagnostics::print(Diagnostic &diagnostic) const {
  using ::binade::Severity;
  auto show = [&](Severity severity) {
    print(mlir::binade::toError(diagnostic, file), severity);
  };
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    return show(Severity::Error);
  case DiagnosticSeverity::Warning:
    return show(Severity::Warning);
  case DiagnosticSeverity::Remark: // Progress of long work.
    return show(Severity::Note);
  case DiagnosticSeverity::Note:
    return;
  }
}

/// Whether a printed error was a bug of Binade. Commands fail with one exit
/// code whatever a context reports, so `getExitCode` replaces it.
static bool hasFoundBug = false;

int getExitCode(int code) {
  return hasFoundBug ? +::binade::ExitCode::Internal : code;
}

void Diagnostics::print(const ::binade::Error &error,
                        ::binade::Severity severity) const {
  if (severity == ::binade::Severity::Error)
    hasFoundBug |= error.exitCode == ::binade::ExitCode::Internal;
  std::cerr << ::binade::render(error, format, severity) << "\n";
}

int Diagnostics::fail(const ::binade::Error &error) const {
  print(error);
  return error.exitCode;
}
