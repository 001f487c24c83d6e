//===- Rounding.h - ONNX nodes of rounding and random bits ------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_ROUNDING_H
#define BINADE_LIB_EXPORT_ROUNDING_H

#include "OnnxWriter.h"

namespace mlir::binade::convert {

/// The counter and key of Philox4x32-10: names of i64 tensors. Only the low 32
/// bits of `stream` and `step` are used.
struct RandomCounter {
  std::string index, stream, step, seed;
};

/// Returns the four 32-bit words of the generator, as u64.
std::array<std::string, 4> drawWords(OnnxWriter &w, const RandomCounter &from);
/// Converts a word to a multiple of 2^-24 in [0, 1).
std::string getUniform(OnnxWriter &w, const std::string &word);
/// Draws a uniform value for each element of a tensor of `shape`, four per
/// counter, by `rng` = (seed, step).
std::string drawUniform(OnnxWriter &w, const std::string &rng, int64_t stream,
                        ArrayRef<int64_t> shape);

/// Rounds `x`, f32, to the precision of `format`, without saturation; the
/// result is f32. Rounds to nearest even or, with `random`, stochastically, as
/// `#binade.quantized` defines.
std::string roundTo(OnnxWriter &w, const std::string &x, FloatType format,
                    const std::string &random = "");

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_ROUNDING_H
