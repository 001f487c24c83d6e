//===- Json.h - JSON from untrusted files -----------------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_JSON_H
#define BINADE_CONTAINER_JSON_H

#include "binade/Container/Error.h"
#include "nlohmann/json.hpp"

namespace binade {

struct JsonLimits {
  std::size_t bytes = 8 << 20;
  std::size_t depth = 64;
  /// Values of all kinds. One takes up to 100 bytes of memory while `[],` takes
  /// three bytes of a file.
  std::size_t values = 1 << 20;
};

/// Parses one JSON text and nothing after it. Rejected, with the byte offset
/// as `part`: bad syntax, NaN and Infinity, numbers beyond f64, bytes that are
/// not UTF-8, a byte order mark, a repeated key, deeper nesting or
/// more values than `limits` allow. `where` names the file and has to be
/// printable.
Result<nlohmann::json> parseJson(std::string_view text, std::string_view where,
                                 JsonLimits limits = {});

} // namespace binade

#endif // BINADE_CONTAINER_JSON_H
