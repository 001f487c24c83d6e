//===- Windows.cpp - Parser of --window -----------------------------------===//

#include "binade/Container/Printable.h"
#include "binade/Runtime/Data.h"
#include <charconv>
#include <limits>

using namespace binade;

/// Parses `text` as a number from 0 to the largest int64.
static std::optional<std::int64_t> parseNumber(std::string_view text) {
  std::optional<std::uint64_t> number = parseDecimal(text);
  if (!number || *number > std::uint64_t(INT64_MAX))
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

/// Removes blanks at both ends.
static std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  std::size_t first = text.find_first_not_of(kBlanks);
  return first == text.npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

/// Parses `INPUT=TENSOR[BEGIN:END]`. Names may contain `=`, `[` and `:`: the
/// input ends at the first `=`, the tensor at the last `[`.
static std::optional<Window> parseWindow(std::string_view text) {
  std::size_t equals = text.find('='), bracket = text.rfind('['),
              colon = text.rfind(':');
  if (text.empty() || equals == text.npos || bracket == text.npos ||
      colon == text.npos || equals == 0 || bracket <= equals + 1 ||
      colon < bracket || text.back() != ']')
    return std::nullopt;
  auto begin = parseNumber(text.substr(bracket + 1, colon - bracket - 1));
  auto end = parseNumber(text.substr(colon + 1, text.size() - colon - 2));
  if (!begin || !end || *begin >= *end)
    return std::nullopt;
  return Window{std::string(text.substr(0, equals)),
                std::string(text.substr(equals + 1, bracket - equals - 1)),
                *begin, *end};
}

/// Returns the position of the comma after the first window. A comma separates
/// windows only after a bracket; blanks may be between them.
static std::size_t findSeparator(std::string_view text) {
  std::size_t comma = text.find(',');
  while (comma != text.npos && !trim(text.substr(0, comma)).ends_with(']'))
    comma = text.find(',', comma + 1);
  return comma;
}

Result<std::vector<Window>> binade::parseWindows(std::string_view text) {
  std::vector<Window> windows;
  while (true) {
    std::size_t comma = findSeparator(text);
    std::string_view part = trim(text.substr(0, comma));
    std::optional<Window> window = parseWindow(part);
    if (!window)
      return Error{"--window",
                   "expected INPUT=TENSOR[BEGIN:END] with BEGIN < END, got " +
                       quote(part),
                   ExitCode::Usage}
          .withNote("for example "
                    "--window 'input_ids=tokens[0:256],labels=tokens[1:257]'");
    windows.push_back(*std::move(window));
    if (comma == text.npos)
      return windows;
    text.remove_prefix(comma + 1);
  }
}
