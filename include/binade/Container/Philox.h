//===- Philox.h - Counter-based random numbers ------------------*- C++ -*-===//
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A number is a function of (key, counter): there is no state, any
// element can be computed alone, and the order of evaluation does not matter.
//
// Keying. The key is the user's 64-bit seed: word 0 its low half, word 1 its
// high half. The four counter words are the caller's; who needs several
// streams from one seed (dropout of each layer, shuffling of each epoch,
// initial weights of each tensor) gives every stream its own counter words.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_PHILOX_H
#define BINADE_CONTAINER_PHILOX_H

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

namespace binade {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxKey philoxKey(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed),
          static_cast<std::uint32_t>(seed >> 32)};
}

/// Four independent, uniformly distributed words.
constexpr std::array<std::uint32_t, 4> philox(PhiloxCounter counter,
                                              PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t a = std::uint64_t(0xd2511f53) * counter[0];
    std::uint64_t b = std::uint64_t(0xcd9e8d57) * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(a)};
    key[0] += 0x9e3779b9;
    key[1] += 0xbb67ae85;
  }
  return counter;
}

/// A multiple of 2^-24 in [0, 1), exact in f32: the upper 24 bits.
constexpr float philoxUniform(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// Two independent numbers of the standard normal distribution from two words
/// (Box and Muller). The radius uses (first + 1) * 2^-32, which is never 0, so
/// that both are finite and below 6.67 in magnitude.
inline std::pair<double, double> philoxNormal(std::uint32_t first,
                                              std::uint32_t second) {
  double radius = std::sqrt(-2.0 * std::log((first + 1.0) * 0x1p-32));
  double angle = 2.0 * std::numbers::pi * (second * 0x1p-32);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

} // namespace binade

#endif // BINADE_CONTAINER_PHILOX_H
