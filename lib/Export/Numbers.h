//===- Numbers.h - f32 becomes narrower numbers -----------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_NUMBERS_H
#define BINADE_LIB_EXPORT_NUMBERS_H

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace mlir::binade::convert {

/// The largest finite number of one of ONNX's float types.
float getLargest(int32_t type);

/// Bytes of an element of a narrow type.
size_t countBytes(int32_t type);

/// How numbers of f32 become others. Finite numbers stay finite.
struct Coding {
  int32_t type;
  /// What they are multiplied by first.
  float factor = 1.0f;

  /// Rounds to nearest even.
  void encode(std::span<const float> from, char *to) const;
};

/// The scale of rule `inverse`: what elements are multiplied by so that the
/// largest becomes the largest of the format.
class InverseScale {
public:
  void add(std::span<const float> values) {
    for (float value : values) {
      uint32_t bits = std::bit_cast<uint32_t>(value) & 0x7fffffff;
      magnitude = std::max(magnitude, bits); // NaN is the largest.
    }
  }
  float get(int32_t type) const;

private:
  uint32_t magnitude = 0;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_NUMBERS_H
