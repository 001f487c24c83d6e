//===- SafetensorsWriter.cpp - Writer of safetensors files ----------------===//

#include "SafetensorsHeader.h"
#include "nlohmann/json.hpp"
#include <algorithm>
#include <numeric>
#include <set>

namespace binade {

using nlohmann::ordered_json;

// Alignment for readers that map the file and use SIMD instructions.
static constexpr std::uint64_t dataAlignment = 64;

static Result<void> checkNames(const std::vector<TensorInfo> &tensors,
                               const SafetensorsMetadata &metadata,
                               const std::string &where) {
  std::set<std::string_view> names;
  for (const TensorInfo &tensor : tensors) {
    auto reject = [&](std::string message) {
      return Error{where, std::move(message), ExitCode::Rejected,
                   tensorPart(tensor.name)};
    };
    if (tensor.name == kMetadataKey)
      return reject("this name is reserved for metadata");
    if (!isUtf8(tensor.name))
      return reject("the name is not UTF-8");
    if (!names.insert(tensor.name).second)
      return reject("the name is given twice");
  }
  for (const auto &[key, value] : metadata)
    if (!isUtf8(key) || !isUtf8(value))
      return Error{where, "metadata " + quote(key) + " is not UTF-8"};
  return {};
}

/// Assigns offsets to tensors, relative to the start of the data. The order of
/// decreasing element size keeps each tensor aligned to its elements.
static Result<void> placeTensors(std::vector<TensorInfo> &tensors,
                                 const std::vector<std::size_t> &order,
                                 const std::string &where) {
  std::uint64_t end = 0;
  for (std::size_t i : order) {
    TensorInfo &tensor = tensors[i];
    std::optional<std::uint64_t> bytes = countBytes(tensor.dtype, tensor.shape);
    if (!bytes || *bytes > (std::uint64_t(1) << 62) - end)
      return Error{where, "the shape has a negative size or is too large",
                   ExitCode::Rejected, tensorPart(tensor.name)};
    tensor.offset = end;
    tensor.bytes = *bytes;
    end += *bytes;
  }
  return {};
}

static std::string makeHeader(const std::vector<TensorInfo> &tensors,
                              const std::vector<std::size_t> &order,
                              const SafetensorsMetadata &metadata) {
  ordered_json root = ordered_json::object();
  if (!metadata.empty())
    root[std::string(kMetadataKey)] = metadata;
  std::string text = root.dump();
  text.pop_back();
  // Written member by member, because inserting into an ordered object searches
  // all its keys.
  for (std::size_t i : order) {
    const TensorInfo &tensor = tensors[i];
    ordered_json entry = {
        {"dtype", name(tensor.dtype)},
        {"shape", tensor.shape},
        {"data_offsets", {tensor.offset, tensor.offset + tensor.bytes}}};
    text += (text.size() > 1 ? "," : "") + ordered_json(tensor.name).dump() +
            ":" + entry.dump();
  }
  text += "}";
  std::uint64_t used = (kLengthBytes + text.size()) % dataAlignment;
  text.append(used ? dataAlignment - used : 0, ' ');
  return text;
}

SafetensorsWriter::SafetensorsWriter(AtomicFile file, std::string where,
                                     std::vector<TensorInfo> tensors)
    : file(std::move(file)), where(std::move(where)),
      tensors(std::move(tensors)), written(this->tensors.size()) {}

Result<SafetensorsWriter>
SafetensorsWriter::create(const std::string &path,
                          std::vector<TensorInfo> tensors,
                          const SafetensorsMetadata &metadata) {
  std::string where = printable(path);
  if (Result<void> named = checkNames(tensors, metadata, where); !named)
    return named.takeError();
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::pair(-static_cast<int>(byteSize(tensors[i].dtype)), i);
  });
  if (Result<void> placed = placeTensors(tensors, order, where); !placed)
    return placed.takeError();
  std::string header = makeHeader(tensors, order, metadata);
  std::uint64_t length = header.size();
  if (length > kMaxSafetensorsHeader)
    return Error{where, "the header would have " + std::to_string(length) +
                            " bytes, the format allows " +
                            std::to_string(kMaxSafetensorsHeader)};
  for (TensorInfo &tensor : tensors)
    tensor.offset += kLengthBytes + length;

  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.takeError();
  Result<void> begun =
      file->write(0, std::as_bytes(std::span<std::uint64_t, 1>(&length, 1)));
  if (begun)
    begun = file->write(kLengthBytes, std::as_bytes(std::span(header)));
  if (!begun)
    return begun.takeError();
  return SafetensorsWriter(std::move(*file), std::move(where),
                           std::move(tensors));
}

Result<void> SafetensorsWriter::append(std::size_t tensor,
                                       std::span<const std::byte> bytes) {
  TensorInfo &info = tensors.at(tensor);
  if (bytes.size() > info.bytes - written[tensor])
    return Error{where,
                 std::to_string(bytes.size()) + " bytes given after " +
                     std::to_string(written[tensor]) + " of " +
                     std::to_string(info.bytes),
                 ExitCode::Internal, tensorPart(info.name)};
  Result<void> done = file.write(info.offset + written[tensor], bytes);
  if (!done)
    return done.takeError().withPart(tensorPart(info.name));
  written[tensor] += bytes.size();
  return {};
}

Result<void> SafetensorsWriter::finish() {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (written[i] != tensors[i].bytes)
      return Error{where,
                   "only " + std::to_string(written[i]) + " of " +
                       std::to_string(tensors[i].bytes) +
                       " bytes have been given",
                   ExitCode::Internal, tensorPart(tensors[i].name)};
  return file.commit();
}

Result<void> writeSafetensors(const std::string &path,
                              std::span<const TensorBytes> tensors,
                              const SafetensorsMetadata &metadata) {
  std::vector<TensorInfo> infos;
  for (const TensorBytes &tensor : tensors)
    infos.push_back({tensor.name, tensor.dtype, tensor.shape});
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(path, std::move(infos), metadata);
  if (!writer)
    return writer.takeError();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (Result<void> done = writer->append(i, tensors[i].bytes); !done)
      return done;
  return writer->finish();
}

} // namespace binade
