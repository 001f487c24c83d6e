//===- Magic.h - Recognise files given in place of others -------*- C++ -*-===//

#ifndef BINADE_CONTAINER_MAGIC_H
#define BINADE_CONTAINER_MAGIC_H

#include <cstddef>
#include <span>
#include <string_view>

namespace binade {

/// As many first bytes of a file as `recognizeMagic` wants to see.
inline constexpr std::size_t kMagicBytes = 64;

/// Says what a file looks like from its first bytes ("a gzip file",
/// "a Git LFS pointer"), or nothing when it looks like none of the kinds that
/// are commonly mistaken for a model or a tensor file.
std::string_view recognizeMagic(std::span<const std::byte> head);

/// What to do about it ("run 'git lfs pull' ..."), or nothing.
std::string_view magicAdvice(std::span<const std::byte> head);

} // namespace binade

#endif // BINADE_CONTAINER_MAGIC_H
