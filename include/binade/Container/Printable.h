//===- Printable.h - Escaping of text from files ----------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_PRINTABLE_H
#define BINADE_CONTAINER_PRINTABLE_H

#include <cstddef>
#include <string>
#include <string_view>

namespace binade {

/// Escapes bytes from a file for a terminal: control characters, text direction
/// marks, backslashes and invalid UTF-8. Truncates the result to `limit` bytes,
/// ending in `...`.
std::string printable(std::string_view bytes, std::size_t limit = 200);

/// Returns `printable` in single quotes, with inner quotes escaped.
std::string quote(std::string_view bytes);

/// Returns a glob that matches only `name`, as a double-quoted YAML string.
/// Bytes that are not UTF-8, which YAML cannot represent, become `?`.
std::string quoteGlob(std::string_view name);

/// Whether `bytes` are well-formed UTF-8 (no surrogates, no overlong forms).
bool isUtf8(std::string_view bytes);

} // namespace binade

#endif // BINADE_CONTAINER_PRINTABLE_H
