//===- Suggest.cpp - Suggestions for misspelled names ---------------------===//

#include "binade/Container/Suggest.h"
#include "binade/Container/Printable.h"
#include <algorithm>
#include <utility>
#include <vector>

using namespace binade;

/// Returns the number of insertions, deletions, replacements and swaps of
/// adjacent letters (optimal string alignment distance) that turn `from` into
/// `to`. A star in `from` is any text, as in patterns.
static std::size_t countEdits(std::string_view from, std::string_view to) {
  std::vector<std::vector<std::size_t>> edits(
      from.size() + 1, std::vector<std::size_t>(to.size() + 1));
  for (std::size_t i = 0; i <= from.size(); ++i)
    for (std::size_t j = 0; j <= to.size(); ++j) {
      if (i > 0 && from[i - 1] == '*') {
        edits[i][j] = j > 0 ? std::min(edits[i - 1][j], edits[i][j - 1])
                            : edits[i - 1][j];
        continue;
      }
      if (i == 0 || j == 0) {
        edits[i][j] = i > 0 ? edits[i - 1][j] + 1 : j;
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

/// Returns `text` with the letters A to Z in lower case, in every locale.
static std::string toLower(std::string_view text) {
  std::string lower(text);
  for (char &letter : lower)
    if (letter >= 'A' && letter <= 'Z')
      letter = static_cast<char>(letter - 'A' + 'a');
  return lower;
}

std::string binade::suggest(std::string_view word,
                            std::span<const std::string> names) {
  // Time grows with the product of the lengths, so skip longer texts.
  constexpr std::size_t kLongest = 200;
  if (word.size() > kLongest)
    return "";
  auto stars = static_cast<std::size_t>(std::ranges::count(word, '*'));
  const std::string *best = nullptr;
  // Upper and lower case only decide between names that are equally near.
  std::pair<std::size_t, std::size_t> fewest;
  for (const std::string &name : names) {
    if (name.size() > kLongest)
      continue;
    std::pair edits(countEdits(toLower(word), toLower(name)),
                    countEdits(word, name));
    // A pattern says nothing about the letters of its stars.
    std::size_t length =
        stars > 0 ? word.size() - stars : std::max(name.size(), std::size_t(3));
    if (3 * edits.first <= length && (!best || edits < fewest)) {
      best = &name;
      fewest = edits;
    }
  }
  return best ? "; did you mean " + quote(*best) + "?" : "";
}

std::string binade::suggestOrList(std::string_view word,
                                  std::span<const std::string> names) {
  if (std::string near = suggest(word, names); !near.empty() || names.empty())
    return near;
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "; expected one of " : ", ") + name;
  return list;
}

/// Returns the words of an option, such as `clip` and `norm` of `--clip-norm`.
static std::vector<std::string> splitOption(std::string_view option) {
  std::vector<std::string> words;
  std::string word;
  for (char letter : std::string(option) + "-")
    if (letter != '-')
      word += letter;
    else if (!word.empty())
      words.push_back(std::exchange(word, ""));
  return words;
}

/// Returns whether `name` is part of `option`, or an abbreviation of it.
static bool abbreviates(std::string_view name, std::string_view option) {
  constexpr std::string_view kHyphens = "--";
  std::vector<std::string> given = splitOption(option);
  std::string initials(kHyphens);
  for (const std::string &word : given)
    initials += word.front();
  if (given.size() > 1 && name == initials)
    return true;
  constexpr std::size_t kLeast = kHyphens.size() + 3;
  if (name.size() >= kLeast && option.starts_with(name))
    return true;
  std::vector<std::string> words = splitOption(name);
  return !words.empty() && std::ranges::all_of(words, [&](auto &word) {
    return std::ranges::find(given, word) != given.end();
  });
}

std::string binade::suggestOption(std::string_view option,
                                  std::span<const std::string> names) {
  if (std::string near = suggest(option, names); !near.empty())
    return near;
  const std::string *longest = nullptr;
  for (const std::string &name : names)
    if (abbreviates(name, option) &&
        (!longest || name.size() > longest->size()))
      longest = &name;
  return longest ? "; did you mean " + quote(*longest) + "?" : "";
}

/// Synonyms of commands, as other programs call them. SYNONYMS in
/// python/binade/parser.py has the same words.
static const std::vector<std::vector<std::string_view>> kSynonyms = {
    {"show", "print", "display", "view", "cat", "dump", "describe", "inspect",
     "info"},
    {"list", "ls"},
    {"check", "validate", "verify", "lint"},
    {"compare", "diff"},
    {"evaluate", "eval", "test", "validate"},
    {"compile", "build"},
    {"convert", "quantize"},
    {"explain", "why"},
    {"run", "exec", "execute", "start"},
};

std::string binade::suggestCommand(std::string_view word,
                                   std::span<const std::string> names) {
  if (std::string near = suggest(word, names); !near.empty())
    return near;
  for (const auto &words : kSynonyms)
    if (std::ranges::find(words, word) != words.end())
      for (std::string_view other : words)
        if (std::ranges::find(names, other) != names.end())
          return "; did you mean " + quote(std::string(other)) + "?";
  return "";
}
