//===- SafetensorsReader.cpp - Reader of safetensors files ----------------===//
// The header is untrusted: before memory is allocated for a size from the file,
// it is checked against the size of the file.
//===----------------------------------------------------------------------===//

#include "SafetensorsHeader.h"
#include "binade/Container/Magic.h"
#include <algorithm>
#include <bit>
#include <cstring>

namespace binade {

static_assert(std::endian::native == std::endian::little,
              "numbers are stored little-endian and copied as they are");

Result<Safetensors> Safetensors::open(const std::string &path) {
  Result<ExternalFile> file = openFile(path);
  if (!file)
    return file.takeError();
  return open(std::move(*file));
}

Result<Safetensors> Safetensors::open(ExternalFile file) {
  Safetensors result;
  result.file = std::move(file);
  if (Result<void> loaded = result.loadHeader(); !loaded)
    return loaded.takeError();
  return result;
}

Result<Safetensors> Safetensors::fromMemory(std::span<const std::byte> memory,
                                            std::string where) {
  Safetensors result;
  result.memory = memory;
  result.memoryName = std::move(where);
  if (Result<void> loaded = result.loadHeader(); !loaded)
    return loaded.takeError();
  return result;
}

const std::string &Safetensors::getPath() const {
  return file ? file->getPath() : memoryName;
}

/// Copies bytes whose range has been checked.
Result<void> Safetensors::readBytes(std::uint64_t offset,
                                    std::span<std::byte> into) const {
  if (file)
    return readRange(*file, offset, into);
  std::ranges::copy(memory.subspan(offset, into.size()), into.begin());
  return {};
}

Result<void> Safetensors::loadHeader() {
  std::uint64_t size = file ? file->getSize() : memory.size();
  std::vector<std::byte> head(std::min<std::uint64_t>(size, kMagicBytes));
  if (Result<void> read = readBytes(0, head); !read)
    return read;
  auto reject = [&](const std::string &reason) {
    std::string_view kind = recognizeMagic(head), advice = magicAdvice(head);
    Error error{getPath(), "not a safetensors file: " + reason};
    if (!kind.empty())
      error.message = "not a safetensors file but " + std::string(kind);
    if (!advice.empty())
      error.notes.push_back(std::string(advice));
    return error;
  };

  std::uint64_t length = 0;
  if (size < kLengthBytes)
    return reject("it has only " + std::to_string(size) + " bytes");
  std::memcpy(&length, head.data(), kLengthBytes);
  if (length > kMaxSafetensorsHeader)
    return reject("its header would have " + std::to_string(length) +
                  " bytes, the limit is " +
                  std::to_string(kMaxSafetensorsHeader));
  // Checked before the length, which is meaningless in files of other types.
  if (length == 0 ||
      (size > kLengthBytes && head[kLengthBytes] != std::byte('{')))
    return reject("its header does not begin with '{'");
  if (length > size - kLengthBytes)
    return Error{getPath(), "the header has " + std::to_string(length) +
                                " bytes, but only " +
                                std::to_string(size - kLengthBytes) +
                                " bytes are left in the file: is it cut off?"};

  std::string text(length, '\0');
  Result<void> read =
      readBytes(kLengthBytes, std::as_writable_bytes(std::span(text)));
  if (!read)
    return read;
  std::uint64_t dataStart = kLengthBytes + length;
  Result<SafetensorsHeader> header =
      parseHeader(text, getPath(), size - dataStart);
  if (!header)
    return header.takeError();
  tensors = std::move(header->tensors);
  metadata = std::move(header->metadata);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].offset += dataStart;
    index.emplace(tensors[i].name, i);
  }
  return {};
}

const TensorInfo *Safetensors::find(std::string_view name) const {
  auto found = index.find(name);
  return found == index.end() ? nullptr : &tensors[found->second];
}

Error Safetensors::errorAt(const TensorInfo &tensor, std::string message,
                           int exitCode) const {
  return Error{getPath(), std::move(message), exitCode,
               tensorPart(tensor.name)};
}

Result<void> Safetensors::read(const TensorInfo &tensor, std::uint64_t start,
                               std::span<std::byte> into) const {
  if (std::string fault = findRangeFault(tensor, start, into.size());
      !fault.empty())
    return errorAt(tensor, std::move(fault), ExitCode::Internal);
  if (Result<void> read = readBytes(tensor.offset + start, into); !read)
    return read.takeError().withPart(tensorPart(tensor.name));
  return {};
}

Result<void> Safetensors::read(const TensorInfo &tensor,
                               std::span<std::byte> into) const {
  if (into.size() != tensor.bytes)
    return errorAt(tensor,
                   "given room for " + std::to_string(into.size()) +
                       " bytes, it has " + std::to_string(tensor.bytes),
                   ExitCode::Internal);
  return read(tensor, 0, into);
}

} // namespace binade
