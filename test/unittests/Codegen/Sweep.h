//===- Sweep.h - Runs a kernel over all inputs ------------------*- C++ -*-===//

#ifndef BINADE_UNITTESTS_CONVERSION_SWEEP_H
#define BINADE_UNITTESTS_CONVERSION_SWEEP_H

#include "Kernel.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace binade::test {

/// The f32 bit patterns that a sweep tries.
enum class Sweep : uint64_t {
  /// All 2^32 patterns.
  All = 1,
  /// Every 127th pattern, and 256 around the end of every binade.
  Part = 127,
};

/// Variants whose results must agree bit by bit.
std::vector<Variant> allVariants();

/// The errors that a sweep found.
struct Accuracy {
  /// The largest distance to the exact value in units of the last place of
  /// the f32 nearest to it; 0.5 if every result was rounded correctly.
  double ulps = 0.5;
  float at = 0;
  /// Results with a wrong NaN, a wrong infinity, or a wrong sign of zero.
  uint64_t wrong = 0;
  float wrongAt = 0;
  uint64_t inputs = 0;
};

/// Compares `kernel`, which maps f32 (and `y`, the same for all lanes) to f32,
/// with `exact` over f32 bit patterns.
Accuracy measure(const Kernel &kernel, double (*exact)(double, double),
                 Sweep sweep, float y = 0);

/// Compares `kernel` with `exact` for the given pairs of f32.
Accuracy measure(const Kernel &kernel, double (*exact)(double, double),
                 const std::vector<float> &x, const std::vector<float> &y);

/// Counts the f32 bit patterns for which the result of `kernel` differs from
/// the 8 or 16 bits of `expected`; sets `at` to one of them.
uint64_t countMismatches(const Kernel &kernel, uint16_t (*expected)(uint32_t),
                         Sweep sweep, uint32_t &at);
uint64_t countMismatches(const Kernel &kernel, uint8_t (*expected)(uint32_t),
                         Sweep sweep, uint32_t &at);

/// Counts the f32 bit patterns for which two kernels of f32 to results of
/// `resultBytes` differ in any bit; `at` is set to the first such value. Tries
/// a tenth of `Sweep::Part`, because there are many variants.
uint64_t countDifferences(const Kernel &one, const Kernel &other, float y,
                          int resultBytes, uint32_t &at);

/// Prints the elements per ns of an operation from f32 to `r` on one thread,
/// for arguments from `low` to `high`, with AVX-512 and with AVX2.
void printSpeeds(const std::string &op, const std::string &r, float low,
                 float high);

} // namespace binade::test

#endif // BINADE_UNITTESTS_CONVERSION_SWEEP_H
