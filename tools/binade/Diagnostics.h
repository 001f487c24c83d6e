//===- Diagnostics.h - errors in the driver's words -------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_DIAGNOSTICS_H
#define BINADE_TOOLS_BINADE_DIAGNOSTICS_H

#include "binade/Container/Error.h"
#include "mlir/IR/Diagnostics.h"

/// Prints every diagnostic of a context, and errors of the libraries without
/// MLIR, in one form: `file[:part]: severity: text`, or JSON with
/// `--diag=json`.
class Diagnostics {
public:
  /// Locations without a file name are printed as `file`.
  Diagnostics(mlir::MLIRContext &context, std::string file,
              ::binade::DiagnosticFormat format);

  void print(const ::binade::Error &error,
             ::binade::Severity severity = ::binade::Severity::Error) const;
  /// Prints the error and returns the exit code.
  int fail(const ::binade::Error &error) const;

private:
  void print(mlir::Diagnostic &diagnostic) const;

  std::string file;
  ::binade::DiagnosticFormat format;
  mlir::ScopedDiagnosticHandler handler;
};

#endif // BINADE_TOOLS_BINADE_DIAGNOSTICS_H
