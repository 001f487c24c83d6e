//===- Suggest.h - What somebody may have meant -----------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_SUGGEST_H
#define BINADE_CONTAINER_SUGGEST_H

#include <span>
#include <string>
#include <string_view>

namespace binade {

/// `; did you mean 'NAME'?` with the name that needs the fewest edits to become
/// `word`, or nothing where each would need more than a third of its letters
/// changed.
std::string suggest(std::string_view word, std::span<const std::string> names);

} // namespace binade

#endif // BINADE_CONTAINER_SUGGEST_H
