//===- Numbers.cpp - f32 becomes narrower numbers -------------------------===//

#include "Numbers.h"
#include "binade/Container/FloatConversion.h"
#include "onnx-ml.pb.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir::binade::convert;
using ::onnx::TensorProto;

float mlir::binade::convert::getLargest(int32_t type) {
  switch (type) {
  case TensorProto::FLOAT16:
    return 65504.0f;
  case TensorProto::BFLOAT16:
    return 0x1.fep127f;
  case TensorProto::FLOAT8E4M3FN:
    return 448.0f;
  case TensorProto::FLOAT8E5M2:
    return 57344.0f;
  default: // FLOAT
    return std::numeric_limits<float>::max();
  }
}

size_t mlir::binade::convert::countBytes(int32_t type) {
  bool isByte =
      type == TensorProto::FLOAT8E4M3FN || type == TensorProto::FLOAT8E5M2;
  return isByte ? 1 : 2;
}

template <typename Code, typename Round>
static void encodeAll(std::span<const float> from, char *to, Round round) {
  for (float value : from) {
    Code code = round(value);
    std::memcpy(to, &code, sizeof(code));
    to += sizeof(code);
  }
}

void Coding::encode(std::span<const float> from, char *to) const {
  auto clamp = [largest = getLargest(type)](float x) {
    return std::isfinite(x) ? std::clamp(x, -largest, largest) : x;
  };
  auto format =
      type == TensorProto::FLOAT8E4M3FN ? ::binade::kE4M3 : ::binade::kE5M2;
  switch (type) {
  case TensorProto::FLOAT16:
    return encodeAll<uint16_t>(
        from, to, [&](float x) { return ::binade::floatToF16(clamp(x)); });
  case TensorProto::BFLOAT16:
    return encodeAll<uint16_t>(
        from, to, [&](float x) { return ::binade::floatToBF16(clamp(x)); });
  default:
    return encodeAll<uint8_t>(from, to, [&](float x) {
      return ::binade::floatToByte(clamp(x * factor), format);
    });
  }
}

float InverseScale::get(int32_t type) const {
  float amax = std::bit_cast<float>(magnitude);
  if (amax == 0.0f || !std::isfinite(amax))
    return 1.0f;
  return std::min(getLargest(type) / amax, std::numeric_limits<float>::max());
}
