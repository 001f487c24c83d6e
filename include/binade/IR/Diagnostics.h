//===- Diagnostics.h - MLIR's diagnostics as errors -------------*- C++ -*-===//

#ifndef BINADE_IR_DIAGNOSTICS_H
#define BINADE_IR_DIAGNOSTICS_H

#include "binade/Container/Error.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace mlir::binade {

/// The shortest text that reads back as `number`, for messages.
std::string formatNumber(double number);

/// The place `part` ("input 'x'"), safe to print, of a file without lines.
Location getPartLoc(MLIRContext *context, StringRef file, const Twine &part);

/// Where `location` points: a file (empty when it names none), and the place in
/// it: `node 'name'`, `3:14`, both, or what `getPartLoc` was given.
std::pair<std::string, std::string> describeLocation(Location location);

/// An error about input that is valid but that Binade does not support. A
/// caller that does not need this part of the input, such as a conversion, may
/// skip it; any other error about a file means that the file is invalid.
InFlightDiagnostic emitUnsupported(Location location);
bool isUnsupported(Diagnostic &diagnostic);

/// `diagnostic` with its notes; a location without a file is in `file`.
::binade::Error toError(Diagnostic &diagnostic, StringRef file);

/// Collects the errors that a context reports while this object exists. The
/// first error is what went wrong, MLIR's notes and later errors are its notes.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(MLIRContext *context);
  ~DiagnosticCollector();

  /// The first error, or one that says `fallback` where none was reported. A
  /// location without a file is in `file`.
  ::binade::Error takeError(StringRef file, StringRef fallback);

  /// Whether the first error is about unsupported input.
  bool isUnsupported() {
    return !errors.empty() && binade::isUnsupported(errors.front());
  }

  /// Whether the first error is at a place in a file.
  bool isAboutFile() const {
    return !errors.empty() &&
           !describeLocation(errors.front().getLocation()).first.empty();
  }

  /// Takes the errors; the caller emits them, or not, once this is gone.
  std::vector<Diagnostic> takeDiagnostics();

private:
  MLIRContext *context;
  bool printsOps; // Before.
  std::vector<Diagnostic> errors;
  ScopedDiagnosticHandler handler;
};

/// Reports collected diagnostics to the handlers that are registered now.
void emitAgain(MLIRContext *context, std::vector<Diagnostic> diagnostics);

/// Prints the errors and warnings that a context reports while this object
/// exists, rendered as every tool renders them.
class DiagnosticPrinter : public ScopedDiagnosticHandler {
public:
  DiagnosticPrinter(
      MLIRContext *context, raw_ostream &os, StringRef file,
      ::binade::DiagnosticFormat format = ::binade::DiagnosticFormat::Text);
  ~DiagnosticPrinter();

private:
  MLIRContext *context;
  bool printsOps; // Before.
};

} // namespace mlir::binade

#endif // BINADE_IR_DIAGNOSTICS_H
