//===- Philox.h - Counter-based random numbers ------------------*- C++ -*-===//
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A random number is a function of key and counter. There is no
// state, so elements can be computed separately and in any order.
//
// The key is the user's 64-bit seed: word 0 is its low half, word 1 its high
// half. The caller chooses the four counter words. Different streams of one
// seed (dropout of each layer, shuffling of each epoch, initial weights of each
// tensor) have to use different counter words.
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

/// Returns four independent, uniformly distributed words.
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

/// Returns the upper 24 bits as a multiple of 2^-24 in [0, 1), exact in f32.
constexpr float philoxUniform(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// Returns two independent values of the standard normal distribution, by the
/// Box-Muller transform of two words. The radius uses (first + 1) * 2^-32,
/// which is never 0, so that magnitudes are below 6.67.
inline std::pair<double, double> philoxNormal(std::uint32_t first,
                                              std::uint32_t second) {
  double radius = std::sqrt(-2.0 * std::log((first + 1.0) * 0x1p-32));
  double angle = 2.0 * std::numbers::pi * (second * 0x1p-32);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

} // namespace binade

#endif // BINADE_CONTAINER_PHILOX_H
