//===- Describe.cpp - Tensors in messages ---------------------------------===//

#include "Describe.h"

std::string binade::describe(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d)
    text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

std::string binade::describe(DType dtype, std::span<const std::int64_t> shape) {
  return std::string(name(dtype)) + " " + describe(shape);
}
