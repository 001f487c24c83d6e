//===- SafetensorsHeader.h - The JSON header of safetensors -----*- C++ -*-===//

#ifndef BINADE_LIB_CONTAINER_SAFETENSORSHEADER_H
#define BINADE_LIB_CONTAINER_SAFETENSORSHEADER_H

#include "binade/Container/Safetensors.h"

namespace binade {

/// The key that holds strings instead of a tensor.
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// Bytes of the header's length, before the header.
inline constexpr std::uint64_t kLengthBytes = 8;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors; ///< Sorted; offsets from the data's start.
  SafetensorsMetadata metadata;
};

/// Parses and checks a header whose file has `dataBytes` bytes after it.
Result<SafetensorsHeader> parseHeader(std::string_view text,
                                      const std::string &where,
                                      std::uint64_t dataBytes);

/// Bytes of a tensor; none when a size is negative or 64 bits do not suffice.
std::optional<std::uint64_t> countBytes(DType type,
                                        const std::vector<std::int64_t> &shape);

/// The `part` of an error about a tensor.
std::string tensorPart(std::string_view name);

} // namespace binade

#endif // BINADE_LIB_CONTAINER_SAFETENSORSHEADER_H
