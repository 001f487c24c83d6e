//===- JoinFirst.h - the beginning of a list, in words ----------*- C++ -*-===//

#ifndef BINADE_CONTAINER_JOINFIRST_H
#define BINADE_CONTAINER_JOINFIRST_H

#include <span>
#include <string>
#include <string_view>

namespace binade {

/// The first `most` of `items` between separators, and how many follow: "a, b
/// and 3 more".
std::string joinFirst(std::span<const std::string> items, std::size_t most,
                      std::string_view separator = ", ");

} // namespace binade

#endif // BINADE_CONTAINER_JOINFIRST_H
