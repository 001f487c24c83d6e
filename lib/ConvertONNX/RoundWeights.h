//===- RoundWeights.h - Rounding of f32 weights to 16 bits ------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_ROUNDWEIGHTS_H
#define BINADE_LIB_CONVERTONNX_ROUNDWEIGHTS_H

#include <cstdint>
#include <span>

namespace mlir::binade::convert {

/// Rounds values to nearest even in `type`, FLOAT16 or BFLOAT16. Finite values
/// saturate, so that they stay finite.
void encode(std::span<const float> from, int32_t type, char *to);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_ROUNDWEIGHTS_H
