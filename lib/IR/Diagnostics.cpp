//===- Diagnostics.cpp - MLIR diagnostics as errors -----------------------===//

#include "binade/IR/Diagnostics.h"
#include "binade/Container/Numbers.h"
#include "binade/IR/InternalError.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::binade;

std::string mlir::binade::formatNumber(double number) {
  return ::binade::formatNumber(number);
}

/// Messages are longer than names, but limited.
static constexpr size_t kMessageLimit = 2000;

Location mlir::binade::getPartLoc(MLIRContext *context, StringRef file,
                                  const Twine &part) {
  Location whole = FileLineColLoc::get(context, file, 0, 0);
  return FusedLoc::get(context, whole, StringAttr::get(context, part));
}

std::pair<std::string, std::string>
mlir::binade::describeLocation(Location location) {
  using Place = std::pair<std::string, std::string>;
  return TypeSwitch<LocationAttr, Place>(location)
      .Case([](FileLineColLoc l) {
        std::string file = ::binade::printable(l.getFilename().strref());
        if (l.getLine() == 0)
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
        Place place;
        for (Location part : l.getLocations())
          if (place = describeLocation(part); !place.second.empty())
            break;
        if (auto part = dyn_cast_if_present<StringAttr>(l.getMetadata()))
          place.second = part.str();
        return place;
      })
      .Default([](LocationAttr) { return Place(); });
}

/// Marks in the metadata of diagnostics, which is not printed.
static constexpr StringLiteral kInternal = "internal";
static constexpr StringLiteral kUnsupported = "unsupported";

static InFlightDiagnostic emitMarked(Location location, StringRef mark) {
  InFlightDiagnostic diagnostic = emitError(location);
  diagnostic.getUnderlyingDiagnostic()->getMetadata().emplace_back(mark);
  return diagnostic;
}

static bool isMarked(Diagnostic &diagnostic, StringRef mark) {
  return llvm::any_of(
      diagnostic.getMetadata(), [&](const DiagnosticArgument &argument) {
        return argument.getKind() ==
                   DiagnosticArgument::DiagnosticArgumentKind::String &&
               argument.getAsString() == mark;
      });
}

InFlightDiagnostic mlir::binade::emitInternalError(Location location) {
  return emitMarked(location, kInternal);
}

InFlightDiagnostic mlir::binade::emitUnsupported(Location location) {
  return emitMarked(location, kUnsupported);
}

bool mlir::binade::isUnsupported(Diagnostic &diagnostic) {
  return isMarked(diagnostic, kUnsupported);
}

::binade::Error mlir::binade::toError(Diagnostic &diagnostic, StringRef file) {
  auto [where, part] = describeLocation(diagnostic.getLocation());
  if (where.empty())
    where = file.str();
  ::binade::Error error{where,
                        ::binade::printable(diagnostic.str(), kMessageLimit)};
  error.part = part;
  for (Diagnostic &note : diagnostic.getNotes()) {
    // A note about another place names it.
    auto [_, other] = describeLocation(note.getLocation());
    std::string text = ::binade::printable(note.str(), kMessageLimit);
    bool isElsewhere = !other.empty() && other != part;
    error.notes.push_back(isElsewhere ? other + " " + text : text);
  }
  if (isMarked(diagnostic, kInternal)) {
    error.exitCode = ::binade::ExitCode::Internal;
    error.notes.push_back("this is a bug in Binade; please report it with the "
                          "command and its files");
  }
  return error;
}

DiagnosticCollector::DiagnosticCollector(MLIRContext *context)
    : context(context), printsOps(context->shouldPrintOpOnDiagnostic()),
      handler(context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
          return failure();
        errors.push_back(std::move(diagnostic));
        return success();
      }) {
  // An op is shown by its location; its text may be long.
  context->printOpOnDiagnostic(false);
}

DiagnosticCollector::~DiagnosticCollector() {
  context->printOpOnDiagnostic(printsOps);
}

::binade::Error DiagnosticCollector::takeError(StringRef file,
                                               StringRef fallback) {
  if (errors.empty())
    return ::binade::Error{file.str(), fallback.str()};
  ::binade::Error error = toError(errors.front(), file);
  for (Diagnostic &later : llvm::drop_begin(errors)) {
    ::binade::Error next = toError(later, "");
    error.notes.push_back(next.message);
    if (next.exitCode == ::binade::ExitCode::Internal)
      error.exitCode = next.exitCode;
  }
  return error;
}

std::vector<Diagnostic> DiagnosticCollector::takeDiagnostics() {
  return std::move(errors);
}

void mlir::binade::emitAgain(MLIRContext *context,
                             std::vector<Diagnostic> diagnostics) {
  for (Diagnostic &diagnostic : diagnostics)
    context->getDiagEngine().emit(std::move(diagnostic));
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext *context, raw_ostream &os,
                                     StringRef file,
                                     ::binade::DiagnosticFormat format)
    : ScopedDiagnosticHandler(context), context(context),
      printsOps(context->shouldPrintOpOnDiagnostic()) {
  context->printOpOnDiagnostic(false);
  setHandler([&os, file = file.str(), format](Diagnostic &diagnostic) {
    bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
    if (!isError && diagnostic.getSeverity() != DiagnosticSeverity::Warning)
      return failure();
    os << ::binade::render(toError(diagnostic, file), format,
                           isError ? ::binade::Severity::Error
                                   : ::binade::Severity::Warning)
       << "\n";
    return success();
  });
}

DiagnosticPrinter::~DiagnosticPrinter() {
  context->printOpOnDiagnostic(printsOps);
}
