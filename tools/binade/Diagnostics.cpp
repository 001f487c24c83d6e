//===- Diagnostics.cpp - Errors in the driver's words ---------------------===//

#include "Diagnostics.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include <iostream>

using namespace mlir;

Diagnostics::Diagnostics(MLIRContext &context, std::string file,
                         binade::DiagnosticFormat format)
    : file(std::move(file)), format(format),
      handler(&context, [this](Diagnostic &diagnostic) {
        print(diagnostic);
        return success();
      }) {}

/// File and place of a location: `a.mlir` and `3:7`, or the model and `node
/// 'n'`.
static std::pair<std::string, std::string> describe(Location location,
                                                    std::string file) {
  if (auto found = location->findInstanceOf<FileLineColLoc>()) {
    std::string place = std::to_string(found.getLine());
    if (found.getColumn())
      place += ":" + std::to_string(found.getColumn());
    return {binade::printable(found.getFilename().getValue()), place};
  }
  if (auto found = location->findInstanceOf<NameLoc>())
    return {file, binade::printable(found.getName().getValue())};
  return {file, ""};
}

void Diagnostics::print(Diagnostic &diagnostic) const {
  if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
    return;
  auto [where, part] = describe(diagnostic.getLocation(), file);
  binade::Error error{where, diagnostic.str()};
  error.part = part;
  for (Diagnostic &note : diagnostic.getNotes())
    error.notes.push_back(note.str());
  print(error, diagnostic.getSeverity() == DiagnosticSeverity::Error
                   ? binade::Severity::Error
                   : binade::Severity::Warning);
}

void Diagnostics::print(const binade::Error &error,
                        binade::Severity severity) const {
  std::cerr << binade::render(error, format, severity) << "\n";
}

int Diagnostics::fail(const binade::Error &error) const {
  print(error);
  return error.exitCode;
}
