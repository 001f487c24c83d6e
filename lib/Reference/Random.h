//===- Random.h - the generator of dropout ----------------------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_RANDOM_H
#define BINADE_LIB_REFERENCE_RANDOM_H

#include <cstdint>

namespace mlir::binade {

/// The first word that Philox4x32-10 draws; of `stream` and `step` the low 32
/// bits count.
uint32_t drawBits(int64_t index, int64_t seed, int64_t step, int64_t stream);

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_RANDOM_H
