//===- WriteBits.h - Halves of f32 in ONNX's words --------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_WRITEBITS_H
#define BINADE_LIB_EXPORT_WRITEBITS_H

#include "OnnxWriter.h"

namespace mlir::binade::convert {

/// The f32 whose upper half is `high`, bf16, and whose lower half is `low`,
/// i16. If `isRounded`, `high` is one more where `low` is negative.
std::string joinHalves(OnnxWriter &w, const std::string &high,
                       const std::string &low, bool isRounded);
/// The inverse.
std::pair<std::string, std::string>
splitHalves(OnnxWriter &w, const std::string &value, bool isRounded);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_WRITEBITS_H
