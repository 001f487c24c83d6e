//===- Sha256.h - SHA-256 ---------------------------------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_SHA256_H
#define BINADE_CONTAINER_SHA256_H

#include "binade/Container/ExternalFile.h"
#include <array>

namespace binade {

/// Computes SHA-256 (FIPS 180-4) incrementally.
class Sha256 {
public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// Returns the 32 bytes of the hash. The object must not be used afterwards.
  std::array<std::byte, 32> digest();
  /// Returns `digest` as 64 lower-case hexadecimal digits.
  std::string hexDigest();

private:
  std::array<std::uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                        0xa54ff53a, 0x510e527f, 0x9b05688c,
                                        0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> block = {};
  std::uint64_t length = 0; ///< Bytes so far.
};

/// Returns the hexadecimal hash of bytes in memory.
std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);

/// Returns the hexadecimal hash of bytes [offset, offset + length) of a file.
Result<std::string> sha256(const ExternalFile &file, std::uint64_t offset,
                           std::uint64_t length);

} // namespace binade

#endif // BINADE_CONTAINER_SHA256_H
