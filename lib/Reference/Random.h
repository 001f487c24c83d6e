//===- Random.h - Random generator of dropout -------------------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_RANDOM_H
#define BINADE_LIB_REFERENCE_RANDOM_H

#include <array>
#include <cstdint>

namespace mlir::binade {

/// Returns the four words that Philox4x32-10 draws, each as a multiple of 2^-24
/// in [0, 1). Only the low 32 bits of `stream` and `step` are used.
std::array<float, 4> drawUniform(int64_t index, int64_t seed, int64_t step,
                                 int64_t stream);

/// Returns the number of element `index`, if each counter gives those of four
/// elements.
float drawElement(int64_t index, int64_t seed, int64_t step, int64_t stream);

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_RANDOM_H
