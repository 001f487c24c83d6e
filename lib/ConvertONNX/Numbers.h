//===- Numbers.h - f32 becomes 16 bits --------------------------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_NUMBERS_H
#define BINADE_LIB_CONVERTONNX_NUMBERS_H

#include <cstdint>
#include <span>

namespace mlir::binade::convert {

/// Rounds numbers to nearest even in ONNX's `type`, f16 or bf16. Finite numbers
/// stay finite.
void encode(std::span<const float> from, int32_t type, char *to);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_NUMBERS_H
