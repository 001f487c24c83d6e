//===- JoinFirst.cpp - Text of the first items of a list ------------------===//

#include "binade/Container/JoinFirst.h"
#include <algorithm>

std::string binade::joinFirst(std::span<const std::string> items,
                              std::size_t most, std::string_view separator) {
  std::string text;
  std::size_t shown = std::min(items.size(), most);
  for (std::size_t i = 0; i < shown; ++i)
    text.append(i ? separator : "").append(items[i]);
  if (shown < items.size())
    text += " and " + std::to_string(items.size() - shown) + " more";
  return text;
}
