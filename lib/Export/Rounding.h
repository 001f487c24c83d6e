//===- Rounding.h - Rounding to few bits, and by chance ---------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_ROUNDING_H
#define BINADE_LIB_EXPORT_ROUNDING_H

#include "OnnxWriter.h"

namespace mlir::binade::convert {

/// What numbers of Philox4x32-10 are drawn from: names of i64. Of `stream` and
/// `step` the low words count.
struct RandomCounter {
  std::string index, stream, step, seed;
};

/// The four words of 32 bits, as u64.
std::array<std::string, 4> drawWords(OnnxWriter &w, const RandomCounter &from);
/// A word as a number of 24 bits in [0, 1).
std::string getUniform(OnnxWriter &w, const std::string &word);
/// Of each element of a tensor of `shape`, by `rng` = (seed, step).
std::string drawUniform(OnnxWriter &w, const std::string &rng, int64_t stream,
                        ArrayRef<int64_t> shape);

/// `x`, f32, as numbers of `format` in f32, without a largest one. The nearest,
/// ties to even; with `random` one of the two around it, as
/// `#binade.quantized` has it.
std::string roundTo(OnnxWriter &w, const std::string &x, FloatType format,
                    const std::string &random = "");

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_ROUNDING_H
