//===- Sha256.cpp - SHA-256 -----------------------------------------------===//

#include "binade/Container/Sha256.h"
#include "Sha256Blocks.h"
#include <algorithm>
#include <bit>
#include <cstring>

namespace binade {

void sha256Portable(std::uint32_t state[8], const std::byte *data,
                    std::size_t blocks) {
  for (; blocks; --blocks, data += 64) {
    std::uint32_t w[64];
    std::memcpy(w, data, 64);
    for (int i = 0; i < 16; ++i)
      w[i] = __builtin_bswap32(w[i]);
    for (int i = 16; i < 64; ++i) {
      std::uint32_t x = w[i - 15], y = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3)) +
             w[i - 7] + (std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10));
    }
    std::uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    std::uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; ++i) {
      std::uint32_t choice = (e & f) ^ (~e & g);
      std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
      std::uint32_t first =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice +
          kSha256Constants[i] + w[i];
      std::uint32_t second =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
      h = g, g = f, f = e, e = d + first;
      d = c, c = b, b = a, a = first + second;
    }
    std::uint32_t sums[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i)
      state[i] += sums[i];
  }
}

static void mix(std::uint32_t state[8], const std::byte *data,
                std::size_t blocks) {
  if (!sha256Native(state, data, blocks))
    sha256Portable(state, data, blocks);
}

void Sha256::update(std::span<const std::byte> bytes) {
  std::size_t used = length % block.size();
  length += bytes.size();
  if (used > 0) {
    std::size_t count = std::min(bytes.size(), block.size() - used);
    std::ranges::copy(bytes.first(count), block.begin() + used);
    if (used + count < block.size())
      return;
    mix(state.data(), block.data(), 1);
    bytes = bytes.subspan(count);
  }
  std::size_t whole = bytes.size() / block.size();
  mix(state.data(), bytes.data(), whole);
  std::ranges::copy(bytes.subspan(whole * block.size()), block.begin());
}

void Sha256::update(std::string_view text) {
  update(std::as_bytes(std::span(text)));
}

std::array<std::byte, 32> Sha256::digest() {
  // The padding is a 1 bit, zeros, and the length in bits in the last 8 bytes.
  std::uint64_t bits = __builtin_bswap64(length * 8);
  std::array<std::byte, 64> padding = {std::byte(0x80)};
  std::size_t used = length % 64;
  update(std::span(padding).first(used < 56 ? 56 - used : 120 - used));
  update(std::as_bytes(std::span(&bits, 1)));
  std::array<std::byte, 32> result;
  for (int i = 0; i < 8; ++i) {
    std::uint32_t word = __builtin_bswap32(state[i]);
    std::memcpy(result.data() + 4 * i, &word, 4);
  }
  return result;
}

std::string Sha256::hexDigest() {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (std::byte value : digest()) {
    text += digits[std::to_integer<int>(value >> 4)];
    text += digits[std::to_integer<int>(value & std::byte(15))];
  }
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hexDigest();
}

std::string sha256(std::string_view text) {
  return sha256(std::as_bytes(std::span(text)));
}

Result<std::string> sha256(const ExternalFile &file, std::uint64_t offset,
                           std::uint64_t length) {
  if (Result<void> inside = checkRange(file, offset, length); !inside)
    return inside.takeError();
  Sha256 hash;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(length, 1 << 18));
  while (length > 0) {
    auto part =
        std::span(buffer).first(std::min<std::uint64_t>(length, buffer.size()));
    if (Result<void> read = readRange(file, offset, part); !read)
      return read.takeError();
    hash.update(part);
    offset += part.size();
    length -= part.size();
  }
  return hash.hexDigest();
}

} // namespace binade
