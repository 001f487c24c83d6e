//===- Error.cpp - Errors, exit codes and Result --------------------------===//

#include "binade/Container/Error.h"
#include "nlohmann/json.hpp"
#include <cerrno>
#include <system_error>

namespace binade {

Error Error::withNote(std::string note) && {
  notes.push_back(std::move(note));
  return std::move(*this);
}

Error Error::withPart(std::string place) && {
  if (part.empty())
    part = std::move(place);
  return std::move(*this);
}

Error Error::seenFrom(std::string referrer, std::string place) && {
  message = where + (part.empty() ? "" : ":" + part) + ": " + message;
  where = std::move(referrer);
  part = std::move(place);
  return std::move(*this);
}

std::string render(const Error &error, DiagnosticFormat format,
                   Severity severity) {
  const char *kind = severity == Severity::Error     ? "error"
                     : severity == Severity::Warning ? "warning"
                                                     : "note";
  if (format == DiagnosticFormat::Json) {
    nlohmann::ordered_json record = {{"severity", kind},
                                     {"file", error.where},
                                     {"part", error.part},
                                     {"message", error.message},
                                     {"notes", error.notes}};
    if (severity == Severity::Error)
      record["exit_code"] = error.exitCode;
    // Messages may contain bytes of the command line that are not UTF-8.
    return record.dump(-1, ' ', false,
                       nlohmann::ordered_json::error_handler_t::replace);
  }
  std::string place = error.where;
  if (!error.part.empty())
    place += (place.empty() ? "" : ":") + error.part;
  if (!place.empty())
    place += ": ";
  std::string text = place + kind + ": " + error.message;
  for (const std::string &note : error.notes)
    text += "\n" + place + "note: " + note;
  return text;
}

static int exitCodeOf(int number) {
  switch (number) {
  case ENOENT:
  case ENOTDIR:
  case ENAMETOOLONG:
    return ExitCode::Rejected;
  case ENOMEM:
  case EMFILE:
  case ENFILE:
    return ExitCode::Resources;
  default:
    return ExitCode::IO;
  }
}

Error systemError(std::string where, std::string_view what, int number) {
  std::string reason = std::generic_category().message(number);
  return Error{std::move(where), std::string(what) + ": " + reason,
               exitCodeOf(number)};
}

} // namespace binade
