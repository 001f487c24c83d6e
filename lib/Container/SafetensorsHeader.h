//===- SafetensorsHeader.h - Header of safetensors files --------*- C++ -*-===//

#ifndef BINADE_LIB_CONTAINER_SAFETENSORSHEADER_H
#define BINADE_LIB_CONTAINER_SAFETENSORSHEADER_H

#include "binade/Container/Safetensors.h"

namespace binade {

/// The key of the metadata, which are strings.
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// Size of the header's length, which precedes the header.
inline constexpr std::uint64_t kLengthBytes = 8;

struct SafetensorsHeader {
  /// Sorted by offset; offsets are relative to the start of the data.
  std::vector<TensorInfo> tensors;
  SafetensorsMetadata metadata;
};

/// Parses and validates a header that is followed by `dataBytes` bytes.
Result<SafetensorsHeader> parseHeader(std::string_view text,
                                      const std::string &where,
                                      std::uint64_t dataBytes);

/// Returns the bytes of a tensor; nothing if a size is negative or the result
/// overflows.
std::optional<std::uint64_t> countBytes(DType type,
                                        const std::vector<std::int64_t> &shape);

/// Returns why a tensor does not have `bytes` bytes from byte `start` on; empty
/// if it has them.
std::string findRangeFault(const TensorInfo &tensor, std::uint64_t start,
                           std::uint64_t bytes);

/// Returns `part` of an error about a tensor.
std::string tensorPart(std::string_view name);

} // namespace binade

#endif // BINADE_LIB_CONTAINER_SAFETENSORSHEADER_H
