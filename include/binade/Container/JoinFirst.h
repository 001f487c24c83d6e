//===- JoinFirst.h - Text of the first items of a list ----------*- C++ -*-===//

#ifndef BINADE_CONTAINER_JOINFIRST_H
#define BINADE_CONTAINER_JOINFIRST_H

#include <span>
#include <string>
#include <string_view>

namespace binade {

/// Joins the first `most` of `items` with separators, and adds the number of
/// the others: "a, b and 3 more".
std::string joinFirst(std::span<const std::string> items, std::size_t most,
                      std::string_view separator = ", ");

} // namespace binade

#endif // BINADE_CONTAINER_JOINFIRST_H
