//===- RoundWeights.cpp - Rounding of f32 weights to 16 bits --------------===//

#include "RoundWeights.h"
#include "binade/Container/FloatConversion.h"
#include "onnx-ml.pb.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using ::onnx::TensorProto;

template <typename Round>
static void encodeAll(std::span<const float> from, char *to, float largest,
                      Round round) {
  for (float value : from) {
    if (std::isfinite(value))
      value = std::clamp(value, -largest, largest);
    uint16_t code = round(value);
    std::memcpy(to, &code, sizeof(code));
    to += sizeof(code);
  }
}

void mlir::binade::convert::encode(std::span<const float> from, int32_t type,
                                   char *to) {
  if (type == TensorProto::FLOAT16)
    return encodeAll(from, to, 65504.0f,
                     [](float x) { return ::binade::floatToF16(x); });
  encodeAll(from, to, 0x1.fep127f,
            [](float x) { return ::binade::floatToBF16(x); });
}
