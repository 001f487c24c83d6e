//===- Suggest.cpp - Suggestions for misspelled names ---------------------===//

#include "binade/Container/Suggest.h"
#include "binade/Container/Printable.h"
#include <algorithm>
#include <vector>

using namespace binade;

/// Returns the number of insertions, deletions, replacements and swaps of
/// adjacent letters (optimal string alignment distance).
static std::size_t countEdits(std::string_view from, std::string_view to) {
  std::vector<std::vector<std::size_t>> edits(
      from.size() + 1, std::vector<std::size_t>(to.size() + 1));
  for (std::size_t i = 0; i <= from.size(); ++i)
    for (std::size_t j = 0; j <= to.size(); ++j) {
      if (i == 0 || j == 0) {
        edits[i][j] = i + j;
        continue;
      }
      bool differ = from[i - 1] != to[j - 1];
      edits[i][j] = std::min({edits[i - 1][j - 1] + differ, edits[i - 1][j] + 1,
                              edits[i][j - 1] + 1});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] &&
          from[i - 2] == to[j - 1])
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
    }
  return edits.back().back();
}

std::string binade::suggest(std::string_view word,
                            std::span<const std::string> names) {
  // Time grows with the product of the lengths, so skip longer texts.
  constexpr std::size_t kLongest = 200;
  const std::string *best = nullptr;
  std::size_t fewest = 0;
  for (const std::string &name : names) {
    if (std::max(word.size(), name.size()) > kLongest)
      continue;
    std::size_t edits = countEdits(word, name);
    if (3 * edits <= std::max(name.size(), std::size_t(3)) &&
        (!best || edits < fewest)) {
      best = &name;
      fewest = edits;
    }
  }
  return best ? "; did you mean " + quote(*best) + "?" : "";
}
