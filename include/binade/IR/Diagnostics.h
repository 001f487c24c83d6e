//===- Diagnostics.h - MLIR diagnostics as errors ---------------*- C++ -*-===//

#ifndef BINADE_IR_DIAGNOSTICS_H
#define BINADE_IR_DIAGNOSTICS_H

#include "binade/Container/Error.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace mlir::binade {

/// Returns the shortest text that reads back as `number`, for messages.
std::string formatNumber(double number);

/// Returns a location for `part` ("input 'x'"), which must be printable, of a
/// file without lines.
Location getPartLoc(MLIRContext *context, StringRef file, const Twine &part);

/// Returns the file of `location` (empty if it has none) and the place in it:
/// `node 'name'`, `3:14`, both, or the `part` of `getPartLoc`.
std::pair<std::string, std::string> describeLocation(Location location);

/// An error about input that is valid but that Binade does not support. A
/// caller that does not need this part of the input, such as a conversion, may
/// skip it; any other error about a file means that the file is invalid.
InFlightDiagnostic emitUnsupported(Location location);
bool isUnsupported(Diagnostic &diagnostic);

/// Converts `diagnostic` with its notes. The error is about `file` if the
/// location has no file.
::binade::Error toError(Diagnostic &diagnostic, StringRef file);

/// Collects the errors that a context reports while this object exists. The
/// first error becomes the message; MLIR's notes and later errors become its
/// notes.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(MLIRContext *context);
  ~DiagnosticCollector();

  /// Returns the first error, or one with the message `fallback` if none was
  /// reported. The error is about `file` if the location has no file.
  ::binade::Error takeError(StringRef file, StringRef fallback);

  /// Whether the first error is about unsupported input.
  bool isUnsupported() {
    return !errors.empty() && binade::isUnsupported(errors.front());
  }

  /// Whether the first error has a location in a file.
  bool isAboutFile() const {
    return !errors.empty() &&
           !describeLocation(errors.front().getLocation()).first.empty();
  }

  /// Returns the collected errors. The caller may emit them after this object
  /// is destroyed.
  std::vector<Diagnostic> takeDiagnostics();

private:
  MLIRContext *context;
  bool printsOps; // The context's setting before.
  std::vector<Diagnostic> errors;
  ScopedDiagnosticHandler handler;
};

/// Emits collected diagnostics to the current handlers.
void emitAgain(MLIRContext *context, std::vector<Diagnostic> diagnostics);

/// Prints the errors and warnings that a context reports while this object
/// exists, in the format of all tools.
class DiagnosticPrinter : public ScopedDiagnosticHandler {
public:
  DiagnosticPrinter(
      MLIRContext *context, raw_ostream &os, StringRef file,
      ::binade::DiagnosticFormat format = ::binade::DiagnosticFormat::Text);
  ~DiagnosticPrinter();

private:
  MLIRContext *context;
  bool printsOps; // The context's setting before.
};

} // namespace mlir::binade

#endif // BINADE_IR_DIAGNOSTICS_H
