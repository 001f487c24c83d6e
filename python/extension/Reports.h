//===- Reports.h - Collect MLIR diagnostics for Python ----------*- C++ -*-===//

#ifndef BINADE_PYTHON_REPORTS_H
#define BINADE_PYTHON_REPORTS_H

#include "Failure.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Diagnostics.h"

namespace binade::python {

/// Collects the diagnostics of a context. Errors are thrown by `raise`;
/// warnings are kept as text.
class Reports {
public:
  Reports(mlir::MLIRContext &context, std::string file)
      : file(std::move(file)),
        handler(&context, [this](mlir::Diagnostic &reported) {
          mlir::DiagnosticSeverity severity = reported.getSeverity();
          if (severity != mlir::DiagnosticSeverity::Error &&
              severity != mlir::DiagnosticSeverity::Warning)
            return mlir::success();
          Error error = mlir::binade::toError(reported, this->file);
          if (severity == mlir::DiagnosticSeverity::Error)
            errors.push_back(std::move(error));
          else
            warnings.push_back(
                render(error, DiagnosticFormat::Text, Severity::Warning));
          return mlir::success();
        }) {
    context.printOpOnDiagnostic(false);
  }

  /// Throws the first error, with the others as its notes. `exitCode` overrides
  /// its exit code; an internal error among the others overrides both.
  [[noreturn]] void raise(std::optional<int> exitCode = std::nullopt) {
    if (errors.empty())
      throw Failure({file, "cannot be compiled", ExitCode::Internal});
    Error first = std::move(errors.front());
    first.exitCode = exitCode.value_or(first.exitCode);
    for (const Error &other : llvm::drop_begin(errors)) {
      first.notes.push_back(render(other));
      if (other.exitCode == ExitCode::Internal)
        first.exitCode = other.exitCode;
    }
    throw Failure(std::move(first));
  }
  void check(mlir::LogicalResult result) {
    if (mlir::failed(result))
      raise();
  }
  template <typename T> T take(mlir::FailureOr<T> result) {
    check(result);
    return std::move(*result);
  }

  std::vector<std::string> warnings;

private:
  std::string file;
  std::vector<Error> errors;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace binade::python

#endif // BINADE_PYTHON_REPORTS_H
