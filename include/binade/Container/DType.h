//===- DType.h - Element types of stored tensors ----------------*- C++ -*-===//
// The names are those of the safetensors format.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_DTYPE_H
#define BINADE_CONTAINER_DTYPE_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace binade {

enum class DType : std::uint8_t {
  F64,
  F32,
  F16,
  BF16,
  F8_E4M3, ///< MLIR's f8E4M3FN
  F8_E5M2,
  F8_E8M0, ///< MLIR's f8E8M0FNU
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  BOOL, ///< One byte, 0 or 1.
};

inline constexpr std::size_t kNumDTypes = 16;

/// Returns the bytes of one element.
std::size_t byteSize(DType type);

/// Returns the name in a safetensors header.
std::string_view name(DType type);

/// Whether `type` is a floating-point type: F64 to F8_E8M0.
bool isFloat(DType type);

/// Returns the type with this name; names are case-sensitive.
std::optional<DType> parseDType(std::string_view name);

/// Returns all names, separated by spaces, for messages.
std::string_view knownDTypes();

} // namespace binade

#endif // BINADE_CONTAINER_DTYPE_H
