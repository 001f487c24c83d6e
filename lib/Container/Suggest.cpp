//===- Suggest.cpp - What somebody may have meant -------------------------===//

#include "binade/Container/Suggest.h"
#include "binade/Container/Printable.h"
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

using namespace binade;

/// Letters to insert, delete or replace (Levenshtein).
static std::size_t countEdits(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      std::size_t replaced = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string binade::suggest(std::string_view word,
                            std::span<const std::string> names) {
  // Time grows with the product of the lengths; no name is that long.
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
