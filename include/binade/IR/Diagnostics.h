//===- Diagnostics.h - MLIR's diagnostics as errors -------------*- C++ -*-===//

#ifndef BINADE_IR_DIAGNOSTICS_H
#define BINADE_IR_DIAGNOSTICS_H

#include "binade/Container/Error.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace mlir::binade {

/// Where `location` points: a file (empty when it names none), and the place in
/// it: `node 'name'`, `3:14`, or both.
std::pair<std::string, std::string> describeLocation(Location location);

/// Collects the errors and warnings that a context reports while this object
/// exists. The first error is what went wrong, MLIR's notes and later errors
/// are its notes.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(MLIRContext *context);
  ~DiagnosticCollector();

  /// The first error, or one that says `fallback` where none was reported. A
  /// location without a file is in `file`.
  ::binade::Error takeError(StringRef file, StringRef fallback);

private:
  MLIRContext *context;
  bool printsOps; // Before.
  std::optional<::binade::Error> error;
  ScopedDiagnosticHandler handler;
};

} // namespace mlir::binade

#endif // BINADE_IR_DIAGNOSTICS_H
