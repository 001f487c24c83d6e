//===- NonFinite.cpp - Search for non-finite elements ---------------------===//

#include "binade/Container/NonFinite.h"
#include "binade/Container/JoinFirst.h"
#include "binade/Container/Printable.h"
#include <cstring>

using namespace binade;

std::string NonFinite::describe() const {
  return std::to_string(count) +
         (count == 1 ? " value that is" : " values that are") +
         " not finite, the first as element " + std::to_string(first);
}

/// Searches for elements in which all bits of the mask `exponent` are set.
template <typename Bits>
static NonFinite search(std::span<const std::byte> bytes, Bits exponent,
                        bool countsMinusInfinity) {
  const Bits minusInfinity =
      exponent | static_cast<Bits>(Bits(1) << (8 * sizeof(Bits) - 1));
  NonFinite found;
  for (std::size_t i = 0; i < bytes.size() / sizeof(Bits); ++i) {
    Bits element; // Bytes of a file need not be aligned.
    std::memcpy(&element, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    if ((element & exponent) != exponent ||
        (element == minusInfinity && !countsMinusInfinity))
      continue;
    if (found.count++ == 0)
      found.first = i;
  }
  return found;
}

NonFinite binade::findNonFinite(DType dtype, std::span<const std::byte> bytes,
                                bool countsMinusInfinity) {
  switch (dtype) {
  case DType::F64:
    return search(bytes, std::uint64_t(0x7ff) << 52, countsMinusInfinity);
  case DType::F32:
    return search(bytes, std::uint32_t(0x7f800000), countsMinusInfinity);
  case DType::BF16:
    return search(bytes, std::uint16_t(0x7f80), countsMinusInfinity);
  case DType::F16:
    return search(bytes, std::uint16_t(0x7c00), countsMinusInfinity);
  default:
    return {};
  }
}

std::string binade::describe(const std::vector<NonFiniteTensor> &tensors,
                             std::string_view what) {
  constexpr std::size_t kShown = 5;
  std::vector<std::string> texts;
  for (const NonFiniteTensor &tensor : tensors)
    texts.push_back(quote(tensor.name) + " (" + std::to_string(tensor.count) +
                    " of " + std::to_string(tensor.elements) + " elements)");
  return std::to_string(tensors.size()) + " " + std::string(what) +
         (tensors.size() == 1 ? " is" : "s are") +
         " not finite: " + joinFirst(texts, kShown);
}
