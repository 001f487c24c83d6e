//===- Suggest.h - Suggestions for misspelled names -------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_SUGGEST_H
#define BINADE_CONTAINER_SUGGEST_H

#include <span>
#include <string>
#include <string_view>

namespace binade {

/// Returns `; did you mean 'NAME'?` with the name that has the smallest edit
/// distance from `word`, without regard to upper and lower case. Returns an
/// empty string if all distances exceed a third of the name's length.
std::string suggest(std::string_view word, std::span<const std::string> names);

/// Like `suggest`, but returns `; expected one of A, B` with all names if no
/// name is near. Returns an empty string if there are no names.
std::string suggestOrList(std::string_view word,
                          std::span<const std::string> names);

/// Like `suggest`, for options, with their hyphens. If none is near, suggests
/// the longest one that `option` contains, as `--grad-clip` contains `--clip`
/// and `--output` begins with `--out`, or that has the first letters of its
/// words, as `--learning-rate` has those of `--lr`.
std::string suggestOption(std::string_view option,
                          std::span<const std::string> names);

/// Like `suggest`, for commands. If no name is near, suggests a synonym of
/// `word`, such as `show` for `print` and `list` for `ls`.
std::string suggestCommand(std::string_view word,
                           std::span<const std::string> names);

} // namespace binade

#endif // BINADE_CONTAINER_SUGGEST_H
