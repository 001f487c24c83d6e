//===- ExternalData.cpp - Tensors stored next to a model ------------------===//

#include "binade/IR/ExternalData.h"
#include "binade/Container/Magic.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/SHA1.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::Error;
using ::binade::ExternalFile;
using ::binade::Result;

static std::string quote(StringRef text) {
  return ::binade::quote(std::string_view(text.data(), text.size()));
}

Result<const ExternalFile *> ExternalData::open(StringRef location) {
  if (auto known = files.find(location); known != files.end())
    return &known->second;
  ::binade::OpenOptions options;
  options.allowHardLinks = allowHardLinks;
  auto file = ::binade::openBeneath(
      directory, std::string_view(location.data(), location.size()), options);
  if (!file)
    return file.takeError();
  return &files.try_emplace(location, std::move(*file)).first->second;
}

/// Returns an error unless the SHA-1 of `file` is `expected`, in hexadecimal.
static Result<void> checkHash(const ExternalFile &file, StringRef expected) {
  llvm::SHA1 hash;
  std::vector<std::byte> buffer(1 << 20);
  for (uint64_t begin = 0; begin < file.getSize(); begin += buffer.size()) {
    auto part = std::span(buffer).first(
        std::min<uint64_t>(buffer.size(), file.getSize() - begin));
    if (auto read = ::binade::readRange(file, begin, part); !read)
      return read;
    hash.update(
        ArrayRef(reinterpret_cast<const uint8_t *>(part.data()), part.size()));
  }
  std::string found = llvm::toHex(hash.final(), /*LowerCase=*/true);
  if (expected.equals_insensitive(found))
    return {};
  return Error{"", file.getPath() + " has the SHA-1 " + found +
                       ", but its checksum is " + quote(expected)};
}

/// Returns an error unless the bytes exist. Often the file is a placeholder for
/// the data, such as a Git LFS pointer; the error then has a note about that.
static Result<void> checkBytes(const ExternalFile &file,
                               const ExternalPlace &place) {
  Result<void> checked = ::binade::checkRange(file, place.offset, place.size);
  if (checked)
    return checked;
  Error error = checked.takeError();
  std::array<std::byte, ::binade::kMagicBytes> head = {};
  size_t size = std::min<uint64_t>(head.size(), file.getSize());
  auto part = std::span(head).first(size);
  if (!::binade::readRange(file, 0, part))
    return error;
  std::string advice(::binade::magicAdvice(part));
  if (!advice.empty())
    error.notes.push_back("the file is " +
                          std::string(::binade::recognizeMagic(part)) + ": " +
                          advice);
  return error;
}

Result<ExternalPlace> ExternalData::find(const Entries &entries, uint64_t bytes,
                                         const Twine &type, Warn warn) {
  ExternalPlace place;
  place.size = bytes;
  StringRef checksum;
  for (auto [key, value] : entries) {
    if (key == "location") {
      place.location = value.str();
    } else if (key == "offset" || key == "length") {
      std::optional<uint64_t> number = ::binade::parseDecimal(value);
      if (!number)
        return Error{"", "expected external " + key.str() +
                             " to be a decimal number, got " + quote(value)};
      if (key == "offset")
        place.offset = *number;
      else if (*number != bytes)
        return Error{"", "external length is " + std::to_string(*number) +
                             " bytes, its type " + type.str() + " needs " +
                             std::to_string(bytes)};
    } else if (key == "checksum") {
      checksum = value;
    } else if (key != "basepath" && warn) {
      warn("unknown key " + quote(key) + " of external data is ignored");
    }
  }
  if (place.location.empty())
    return Error{"", "external data name no file"};
  Result<const ExternalFile *> file = open(place.location);
  if (!file)
    return file.takeError();
  if (!checksum.empty() && hashed.insert(place.location).second)
    if (auto same = checkHash(**file, checksum); !same)
      return same.takeError();
  if (auto checked = checkBytes(**file, place); !checked)
    return checked.takeError();
  return place;
}
