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

} // namespace binade

#endif // BINADE_CONTAINER_SUGGEST_H
