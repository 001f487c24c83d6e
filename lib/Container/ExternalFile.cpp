//===- ExternalFile.cpp - Safe reading of external files ------------------===//

#include "binade/Container/ExternalFile.h"
#include "binade/Container/Magic.h"
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <unistd.h>

namespace binade {

Result<void> checkRange(const ExternalFile &file, std::uint64_t offset,
                        std::uint64_t length) {
  std::uint64_t size = file.getSize();
  if (offset <= size && length <= size - offset)
    return {};
  Error error{file.getPath(), std::to_string(length) + " bytes at offset " +
                                  std::to_string(offset) +
                                  " reach beyond the end of the file, which "
                                  "has " +
                                  std::to_string(size) + " bytes"};
  // The usual reason is another file in place of the data, such as a pointer.
  std::array<std::byte, kMagicBytes> head;
  std::span<std::byte> part =
      std::span(head).first(std::min<std::uint64_t>(size, head.size()));
  if (readRange(file, 0, part) && !recognizeMagic(part).empty()) {
    std::string advice(magicAdvice(part));
    error.notes.push_back("the file looks like " +
                          std::string(recognizeMagic(part)) +
                          (advice.empty() ? "" : "; " + advice));
  }
  return error;
}

Result<void> readRange(const ExternalFile &file, std::uint64_t offset,
                       std::span<std::byte> into) {
  if (Result<void> inside = checkRange(file, offset, into.size()); !inside)
    return inside;
  std::size_t done = 0;
  while (done < into.size()) {
    ssize_t count =
        ::pread(file.getDescriptor(), into.data() + done, into.size() - done,
                static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(file.getPath(),
                         "cannot read " + std::to_string(into.size()) +
                             " bytes at offset " + std::to_string(offset),
                         errno);
    if (count == 0)
      return Error{file.getPath(),
                   "the file shrank while it was read: it had " +
                       std::to_string(file.getSize()) +
                       " bytes and now ends at byte " +
                       std::to_string(offset + done),
                   ExitCode::IO};
    done += static_cast<std::size_t>(count);
  }
  return {};
}

Result<std::string> readText(const ExternalFile &file, std::uint64_t limit) {
  if (file.getSize() > limit)
    return Error{file.getPath(),
                 "the file has " + std::to_string(file.getSize()) +
                     " bytes, the limit is " + std::to_string(limit),
                 ExitCode::Resources};
  std::string text(file.getSize(), '\0');
  Result<void> read =
      readRange(file, 0, std::as_writable_bytes(std::span(text)));
  if (!read)
    return read.takeError();
  return text;
}

std::optional<std::uint64_t> parseDecimal(std::string_view text) {
  std::uint64_t value = 0;
  const char *end = text.data() + text.size();
  auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || stop != end)
    return std::nullopt;
  return value;
}

} // namespace binade
