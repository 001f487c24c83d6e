//===- Diagnostics.cpp - MLIR's diagnostics as errors ---------------------===//

#include "binade/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::binade;

std::pair<std::string, std::string>
mlir::binade::describeLocation(Location location) {
  using Place = std::pair<std::string, std::string>;
  return TypeSwitch<LocationAttr, Place>(location)
      .Case([](FileLineColLoc l) {
        std::string file = ::binade::printable(l.getFilename().strref());
        if (l.getLine() == 0) // The module itself.
          return Place(file, "");
        return Place(file,
                     llvm::formatv("{0}:{1}", l.getLine(), l.getColumn()));
      })
      .Case([](NameLoc l) {
        auto [file, place] = describeLocation(l.getChildLoc());
        std::string node = "node " + ::binade::quote(l.getName().strref());
        return Place(file, place.empty() ? node : node + ":" + place);
      })
      .Case([](CallSiteLoc l) { return describeLocation(l.getCallee()); })
      .Case(
          [](OpaqueLoc l) { return describeLocation(l.getFallbackLocation()); })
      .Case([](FusedLoc l) {
        for (Location part : l.getLocations())
          if (Place place = describeLocation(part); !place.second.empty())
            return place;
        return Place();
      })
      .Default([](LocationAttr) { return Place(); });
}

DiagnosticCollector::DiagnosticCollector(MLIRContext *context)
    : context(context), printsOps(context->shouldPrintOpOnDiagnostic()),
      handler(context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
          return failure();
        std::string message = ::binade::printable(diagnostic.str(), 2000);
        if (error) {
          error->notes.push_back(message);
          return success();
        }
        auto [file, place] = describeLocation(diagnostic.getLocation());
        error = ::binade::Error{file, message};
        error->part = place;
        for (Diagnostic &note : diagnostic.getNotes())
          error->notes.push_back(::binade::printable(note.str(), 2000));
        return success();
      }) {
  // An op is shown by its place; its text may be long.
  context->printOpOnDiagnostic(false);
}

DiagnosticCollector::~DiagnosticCollector() {
  context->printOpOnDiagnostic(printsOps);
}

::binade::Error DiagnosticCollector::takeError(StringRef file,
                                               StringRef fallback) {
  if (!error)
    error = ::binade::Error{"", fallback.str()};
  if (error->where.empty())
    error->where = file.str();
  return std::move(*error);
}
