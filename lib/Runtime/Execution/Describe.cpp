//===- Describe.cpp - Shapes and types in messages ------------------------===//

#include "Describe.h"
#include <algorithm>

std::string binade::describe(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d)
    text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

std::string binade::describe(DType dtype, std::span<const std::int64_t> shape) {
  return std::string(name(dtype)) + " " + describe(shape);
}

binade::Error binade::withFirstNotes(Error error,
                                     std::span<const std::string> notes) {
  constexpr std::size_t kMax = 19;
  for (const std::string &note : notes.first(std::min(notes.size(), kMax)))
    error = std::move(error).withNote(note);
  if (notes.size() > kMax)
    error = std::move(error).withNote(
        "and " + std::to_string(notes.size() - kMax) + " more");
  return error;
}
