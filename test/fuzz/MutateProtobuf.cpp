//===- MutateProtobuf.cpp - Changes of a message without its schema -------===//
// The wire format tells where fields begin and end. A field with a length is
// parsed as a nested message if that succeeds, and is text otherwise. Writing
// the parsed tree updates the lengths of all enclosing fields.
//===----------------------------------------------------------------------===//

#include "Targets.h"
#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

using namespace binade::fuzz;

namespace {
using Random = std::minstd_rand;

struct Field;
using Message = std::vector<Field>;

struct Field {
  std::uint32_t number = 0, wire = 0;
  std::uint64_t value = 0; ///< The value of a varint.
  std::string bytes;       ///< The contents of other fields.
  Message message;         ///< `bytes`, parsed as a message; else empty.

  bool isMessage() const { return !message.empty(); }
};

enum Wire : std::uint32_t { Varint = 0, Fixed64 = 1, Length = 2, Fixed32 = 5 };

/// ONNX has no larger field numbers. Text that parses as a message often does.
constexpr std::uint32_t kMaxNumber = 40;
constexpr int kMaxDepth = 24;
} // namespace

static std::size_t draw(Random &random, std::size_t count) {
  return count == 0 ? 0 : random() % count;
}

//===----------------------------------------------------------------------===//
// The wire format
//===----------------------------------------------------------------------===//

static std::optional<std::uint64_t> takeVarint(std::string_view &text) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !text.empty(); shift += 7) {
    auto byte = static_cast<std::uint8_t>(text.front());
    text.remove_prefix(1);
    value |= std::uint64_t(byte & 0x7f) << shift;
    if (byte < 0x80)
      return value;
  }
  return std::nullopt;
}

static std::optional<Message> parse(std::string_view text, int depth = 0) {
  Message message;
  while (!text.empty()) {
    std::optional<std::uint64_t> tag = takeVarint(text);
    if (!tag || *tag >> 3 == 0 || *tag >> 3 > kMaxNumber)
      return std::nullopt;
    Field &field = message.emplace_back();
    field.number = static_cast<std::uint32_t>(*tag >> 3);
    field.wire = *tag & 7;
    std::optional<std::uint64_t> size;
    if (field.wire == Varint) {
      std::optional<std::uint64_t> value = takeVarint(text);
      if (!value)
        return std::nullopt;
      field.value = *value;
      continue;
    }
    if (field.wire == Length)
      size = takeVarint(text);
    else if (field.wire == Fixed64 || field.wire == Fixed32)
      size = field.wire == Fixed64 ? 8 : 4;
    if (!size || *size > text.size())
      return std::nullopt;
    field.bytes = text.substr(0, *size);
    text.remove_prefix(*size);
    if (field.wire != Length || depth == kMaxDepth)
      continue;
    if (std::optional<Message> inner = parse(field.bytes, depth + 1))
      field.message = std::move(*inner);
  }
  return message;
}

static void putVarint(std::string &text, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    text.push_back(static_cast<char>(value | 0x80));
  text.push_back(static_cast<char>(value));
}

static std::string write(const Message &message) {
  std::string text;
  for (const Field &field : message) {
    putVarint(text, field.number << 3 | field.wire);
    if (field.wire == Varint) {
      putVarint(text, field.value);
      continue;
    }
    std::string bytes = field.isMessage() ? write(field.message) : field.bytes;
    if (field.wire == Length)
      putVarint(text, bytes.size());
    text += bytes;
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

namespace {
/// A field, given by its parent and its index there.
struct Place {
  Message *parent;
  std::size_t index;

  Field &get() const { return (*parent)[index]; }
};
} // namespace

static void collect(Message &message, std::vector<Place> &places) {
  for (std::size_t i = 0; i < message.size(); ++i) {
    places.push_back({&message, i});
    collect(message[i].message, places);
  }
}

static std::uint64_t drawNumber(Random &random, std::uint64_t old) {
  constexpr std::array<std::int64_t, 20> kNumbers = {0,
                                                     1,
                                                     2,
                                                     3,
                                                     -1,
                                                     -2,
                                                     7,
                                                     8,
                                                     16,
                                                     255,
                                                     65536,
                                                     1 << 20,
                                                     1 << 24,
                                                     INT32_MAX,
                                                     INT32_MIN,
                                                     INT64_MAX,
                                                     INT64_MIN,
                                                     std::int64_t(1) << 40,
                                                     std::int64_t(1) << 47,
                                                     std::int64_t(1) << 62};
  switch (draw(random, 4)) {
  case 0:
    return old + 1;
  case 1:
    return old - 1;
  case 2:
    return draw(random, 24);
  default:
    return static_cast<std::uint64_t>(kNumbers[draw(random, kNumbers.size())]);
  }
}

/// Draws a field of the same number and kind as `field`, or returns null.
static const Field *drawLike(Random &random, const std::vector<Place> &places,
                             const Field &field) {
  for (int attempt = 0; attempt < 16; ++attempt) {
    const Field &other = places[draw(random, places.size())].get();
    if (other.number == field.number && other.wire == field.wire &&
        other.isMessage() == field.isMessage())
      return &other;
  }
  return nullptr;
}

static void changeBytes(Random &random, std::string &bytes, Mutate mutate) {
  // Shapes and indices are stored as rows of i64.
  if (!bytes.empty() && bytes.size() % 8 == 0 && draw(random, 2) == 0) {
    char *at = bytes.data() + 8 * draw(random, bytes.size() / 8);
    std::uint64_t number;
    std::memcpy(&number, at, 8);
    number = drawNumber(random, number);
    std::memcpy(at, &number, 8);
    return;
  }
  bytes = mutate(std::move(bytes));
}

static void change(Random &random, Message &root, Mutate mutate) {
  std::vector<Place> places;
  collect(root, places);
  if (places.empty())
    return;
  auto [parent, index] = places[draw(random, places.size())];
  Field &field = (*parent)[index];
  switch (draw(random, 8)) {
  case 0:
    parent->erase(parent->begin() + static_cast<std::ptrdiff_t>(index));
    return;
  case 1:
    parent->insert(parent->begin() + static_cast<std::ptrdiff_t>(index),
                   Field(field));
    return;
  case 2:
    std::swap(field, (*parent)[draw(random, parent->size())]);
    return;
  case 3:
    field.number = 1 + static_cast<std::uint32_t>(draw(random, 22));
    return;
  case 4:
    if (const Field *other = drawLike(random, places, field))
      field = Field(*other);
    return;
  default:
    if (field.wire == Varint)
      field.value = drawNumber(random, field.value);
    else if (!field.isMessage())
      changeBytes(random, field.bytes, mutate);
    else if (const Field *other = drawLike(random, places, field))
      parent->push_back(Field(*other));
  }
}

std::string binade::fuzz::mutateProtobuf(std::string bytes, unsigned seed,
                                         Mutate mutate) {
  Random random(seed);
  std::optional<Message> root = parse(bytes);
  if (!root || draw(random, 16) == 0)
    return mutate(std::move(bytes));
  for (std::size_t i = 0, end = 1 + draw(random, 4); i < end; ++i)
    change(random, *root, mutate);
  return write(*root);
}

std::string binade::fuzz::crossProtobuf(const std::string &bytes,
                                        const std::string &other,
                                        unsigned seed) {
  Random random(seed);
  std::optional<Message> root = parse(bytes), source = parse(other);
  if (!root || !source || root->empty() || source->empty())
    return bytes;
  std::vector<Place> places, sources;
  collect(*root, places);
  collect(*source, sources);
  Field &field = places[draw(random, places.size())].get();
  if (const Field *like = drawLike(random, sources, field))
    field = Field(*like);
  return write(*root);
}
