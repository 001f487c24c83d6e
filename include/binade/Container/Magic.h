//===- Magic.h - Recognition of file types ----------------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_MAGIC_H
#define BINADE_CONTAINER_MAGIC_H

#include <cstddef>
#include <span>
#include <string_view>

namespace binade {

/// The number of first bytes of a file that `recognizeMagic` needs.
inline constexpr std::size_t kMagicBytes = 64;

/// Returns the type of a file from its first bytes ("a gzip file",
/// "a Git LFS pointer"); empty if it is not one of the types that are commonly
/// given instead of a model or a tensor file.
std::string_view recognizeMagic(std::span<const std::byte> head);

/// Returns what to do about such a file ("run 'git lfs pull' ..."); may be
/// empty.
std::string_view magicAdvice(std::span<const std::byte> head);

} // namespace binade

#endif // BINADE_CONTAINER_MAGIC_H
