//===- Printable.h - Text from files made safe to show ----------*- C++ -*-===//

#ifndef BINADE_CONTAINER_PRINTABLE_H
#define BINADE_CONTAINER_PRINTABLE_H

#include <cstddef>
#include <string>
#include <string_view>

namespace binade {

/// Makes bytes from a file safe for a terminal: control characters, text
/// direction marks, backslashes and bytes that are not UTF-8 are escaped, and
/// what does not fit into `limit` bytes is replaced by `...`.
std::string printable(std::string_view bytes, std::size_t limit = 200);

/// `printable` between single quotes, with quotes inside escaped.
std::string quote(std::string_view bytes);

/// A glob that matches `name` alone, between double quotes as YAML has them.
/// Bytes that are not UTF-8, which YAML cannot hold, are any byte.
std::string quoteGlob(std::string_view name);

/// True for well-formed UTF-8 (no surrogates, no overlong forms).
bool isUtf8(std::string_view bytes);

} // namespace binade

#endif // BINADE_CONTAINER_PRINTABLE_H
