//===- Json.h - JSON from untrusted files -----------------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_JSON_H
#define BINADE_CONTAINER_JSON_H

#include "binade/Container/Error.h"
#include "nlohmann/json.hpp"

namespace binade {

struct JsonLimits {
  std::size_t bytes = 8 << 20;
  std::size_t depth = 64;
  /// Number of values of all kinds. A value needs up to 100 bytes of memory,
  /// but only three bytes in a file (`[],`).
  std::size_t values = 1 << 20;
};

/// Parses a JSON text. Rejects invalid syntax, text after the value, NaN and
/// Infinity, numbers out of the range of f64, invalid UTF-8, a byte order mark,
/// repeated keys, and deeper nesting or more values than `limits` allow; `part`
/// of the error is the byte offset. `where` names the file and has to be
/// printable.
Result<nlohmann::json> parseJson(std::string_view text, std::string_view where,
                                 JsonLimits limits = {});

} // namespace binade

#endif // BINADE_CONTAINER_JSON_H
