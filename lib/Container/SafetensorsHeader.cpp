//===- SafetensorsHeader.cpp - Header of safetensors files ----------------===//

#include "SafetensorsHeader.h"
#include "binade/Container/Json.h"
#include <algorithm>
#include <limits>
#include <tuple>

namespace binade {

using nlohmann::json;

std::string findRangeFault(const TensorInfo &tensor, std::uint64_t start,
                           std::uint64_t bytes) {
  if (start <= tensor.bytes && bytes <= tensor.bytes - start)
    return "";
  return "asked for " + std::to_string(bytes) + " bytes at byte " +
         std::to_string(start) + " of " + std::to_string(tensor.bytes);
}

std::string tensorPart(std::string_view name) {
  return "tensor " + quote(name);
}

std::optional<std::uint64_t>
countBytes(DType type, const std::vector<std::int64_t> &shape) {
  std::uint64_t bytes = byteSize(type);
  for (std::int64_t size : shape)
    if (size < 0 ||
        __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes))
      return std::nullopt;
  return bytes;
}

/// Returns an unsigned integer of at most 63 bits; nothing for other values.
static std::optional<std::int64_t> asSize(const json &value) {
  if (!value.is_number_unsigned())
    return std::nullopt;
  auto number = value.get<std::uint64_t>();
  if (number > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  return static_cast<std::int64_t>(number);
}

namespace {
/// Reads the entry of one tensor.
class EntryParser {
public:
  EntryParser(const std::string &where, const std::string &name,
              const json &entry)
      : where(where), name(name), entry(entry) {}

  Result<TensorInfo> parse() const {
    if (!entry.is_object())
      return reject("expected an object with 'dtype', 'shape' and "
                    "'data_offsets'");
    for (auto &[key, value] : entry.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        return reject("unknown key " + quote(key));
    TensorInfo tensor;
    tensor.name = name;
    Result<void> step = parseType(tensor);
    if (step)
      step = parseShape(tensor);
    if (step)
      step = parseOffsets(tensor);
    if (!step)
      return step.takeError();
    return tensor;
  }

private:
  Error reject(std::string message) const {
    return Error{where, std::move(message), ExitCode::Rejected,
                 tensorPart(name)};
  }

  Result<void> parseType(TensorInfo &tensor) const {
    auto type = entry.find("dtype");
    if (type == entry.end() || !type->is_string())
      return reject("expected a string 'dtype'");
    const std::string &text = type->get_ref<const std::string &>();
    std::optional<DType> known = parseDType(text);
    if (!known)
      return reject("unknown element type " + quote(text))
          .withNote("known types: " + std::string(knownDTypes()));
    tensor.dtype = *known;
    return {};
  }

  Result<void> parseShape(TensorInfo &tensor) const {
    auto shape = entry.find("shape");
    if (shape == entry.end() || !shape->is_array())
      return reject("expected an array 'shape'");
    for (const json &value : *shape) {
      std::optional<std::int64_t> size = asSize(value);
      if (!size)
        return reject("expected sizes in 'shape' to be whole numbers from 0 "
                      "to 2^63 - 1, found " +
                      printable(value.dump(), 40));
      tensor.shape.push_back(*size);
    }
    return {};
  }

  Result<void> parseOffsets(TensorInfo &tensor) const {
    auto offsets = entry.find("data_offsets");
    bool isPair = offsets != entry.end() && offsets->is_array() &&
                  offsets->size() == 2 && asSize((*offsets)[0]) &&
                  asSize((*offsets)[1]);
    if (!isPair)
      return reject("expected 'data_offsets' to be two whole numbers");
    auto begin = static_cast<std::uint64_t>(*asSize((*offsets)[0]));
    auto end = static_cast<std::uint64_t>(*asSize((*offsets)[1]));
    if (begin > end)
      return reject("'data_offsets' end before they begin: " + offsets->dump());
    std::optional<std::uint64_t> bytes = countBytes(tensor.dtype, tensor.shape);
    if (!bytes)
      return reject("the product of 'shape' and element size overflows");
    if (*bytes != end - begin)
      return reject("shape and type need " + std::to_string(*bytes) +
                    " bytes, but 'data_offsets' span " +
                    std::to_string(end - begin));
    tensor.offset = begin;
    tensor.bytes = *bytes;
    return {};
  }

  const std::string &where;
  const std::string &name;
  const json &entry;
};
} // namespace

static Result<SafetensorsMetadata> parseMetadata(const json &entry,
                                                 const std::string &where) {
  if (!entry.is_object())
    return Error{where, "expected '__metadata__' to be an object"};
  SafetensorsMetadata metadata;
  for (auto &[key, value] : entry.items()) {
    if (!value.is_string())
      return Error{where, "expected the value of " + quote(key) +
                              " in '__metadata__' to be a string"};
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

/// Checks that sorted tensors are contiguous and cover `dataBytes` exactly.
static Result<void> checkLayout(const std::vector<TensorInfo> &tensors,
                                const std::string &where,
                                std::uint64_t dataBytes) {
  std::uint64_t end = 0;
  for (const TensorInfo &tensor : tensors) {
    auto reject = [&](const std::string &message) {
      return Error{where, message, ExitCode::Rejected, tensorPart(tensor.name)};
    };
    if (tensor.offset != end)
      return reject(
          "data begins at byte " + std::to_string(tensor.offset) +
          ", but the tensors before it end at byte " + std::to_string(end) +
          (tensor.offset < end ? ": they overlap" : ": there is a hole"));
    end += tensor.bytes; // Both are below 2^63.
    if (end > dataBytes)
      return reject("data ends at byte " + std::to_string(end) +
                    ", but the file has only " + std::to_string(dataBytes) +
                    " bytes of data: is it cut off?");
  }
  if (end != dataBytes)
    return Error{where, std::to_string(dataBytes - end) +
                            " bytes after the last tensor belong to no tensor"};
  return {};
}

Result<SafetensorsHeader> parseHeader(std::string_view text,
                                      const std::string &where,
                                      std::uint64_t dataBytes) {
  Result<json> root = parseJson(
      text, where,
      {.bytes = kMaxSafetensorsHeader, .depth = 3, .values = 1 << 22});
  if (!root) {
    Error error = root.takeError();
    error.part = "header " + error.part;
    return error;
  }
  SafetensorsHeader header;
  for (auto &[name, entry] : root->items()) {
    if (name == kMetadataKey) {
      Result<SafetensorsMetadata> metadata = parseMetadata(entry, where);
      if (!metadata)
        return metadata.takeError();
      header.metadata = std::move(*metadata);
      continue;
    }
    Result<TensorInfo> tensor = EntryParser(where, name, entry).parse();
    if (!tensor)
      return tensor.takeError();
    header.tensors.push_back(std::move(*tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorInfo &a, const TensorInfo &b) {
              return std::tie(a.offset, a.bytes, a.name) <
                     std::tie(b.offset, b.bytes, b.name);
            });
  Result<void> layout = checkLayout(header.tensors, where, dataBytes);
  if (!layout)
    return layout.takeError();
  return header;
}

} // namespace binade
