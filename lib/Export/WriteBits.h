//===- WriteBits.h - Parts of f32 as ONNX nodes -----------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_WRITEBITS_H
#define BINADE_LIB_EXPORT_WRITEBITS_H

#include "OnnxWriter.h"

namespace mlir::binade::convert {

/// Joins the upper half `high`, bf16, and the lower half `low`, i16, of an f32.
/// If `isRounded`, `high` was rounded to nearest, so that it is one unit larger
/// where `low` is negative.
std::string joinHalves(OnnxWriter &w, const std::string &high,
                       const std::string &low, bool isRounded);
/// Splits an f32 into its halves; the inverse of `joinHalves`.
std::pair<std::string, std::string>
splitHalves(OnnxWriter &w, const std::string &value, bool isRounded);

/// Adds the rounding error with the 8-bit code `code` to `rounded`, a bf16, as
/// `join_halves` defines it. Returns f32.
std::string addError(OnnxWriter &w, const std::string &rounded,
                     const std::string &code);
/// Returns the code of the error of `value`, an f32, rounded to `rounded`.
std::string writeRoundingError(OnnxWriter &w, const std::string &value,
                               const std::string &rounded);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_WRITEBITS_H
