//===- NpyHeader.cpp - Headers of NumPy arrays ----------------------------===//
// Format: magic, version, length of the header, and the header: a Python
// literal such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
// (numpy.lib.format). The header is untrusted.
//===----------------------------------------------------------------------===//

#include "NpyHeader.h"
#include <cstring>
#include <optional>

using namespace binade;

static constexpr std::string_view kMagic = "\x93NUMPY";
/// NumPy's own limit (max_header_size).
static constexpr std::uint64_t kMaxHeader = 10'000;

namespace {
/// The entries of a header.
struct Header {
  std::string type;
  bool isFortran = false;
  std::vector<std::int64_t> shape;
};

/// Parses the subset of Python's literals that numpy.save writes.
class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}

  std::optional<Header> parse() {
    Header header;
    int entries = 0;
    if (!take("{"))
      return std::nullopt;
    while (!take("}")) {
      std::optional<std::string> key = parseString();
      bool isParsed = key && take(":");
      if (isParsed && *key == "descr")
        isParsed = parseType(header.type);
      else if (isParsed && *key == "fortran_order")
        isParsed = parseFlag(header.isFortran);
      else
        isParsed = isParsed && *key == "shape" && parseShape(header.shape);
      if (!isParsed || (!take(",") && !peek('}')))
        return std::nullopt;
      ++entries;
    }
    return entries == 3 ? std::optional(header) : std::nullopt;
  }

private:
  void skipSpaces() {
    text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  }
  bool peek(char expected) {
    skipSpaces();
    return text.starts_with(expected);
  }
  bool take(std::string_view expected) {
    skipSpaces();
    if (!text.starts_with(expected))
      return false;
    text.remove_prefix(expected.size());
    return true;
  }
  std::optional<std::string> parseString() {
    bool isDouble = peek('"');
    if (!isDouble && !peek('\''))
      return std::nullopt;
    std::size_t end = text.find(text.front(), 1);
    if (end == text.npos)
      return std::nullopt;
    std::string value(text.substr(1, end - 1));
    text.remove_prefix(end + 1);
    return value;
  }
  /// The type of records is a list of fields, which is kept as text.
  bool parseType(std::string &type) {
    if (peek('[')) {
      std::size_t end = text.rfind(']');
      if (end == text.npos)
        return false;
      type = text.substr(0, end + 1);
      text.remove_prefix(end + 1);
      return true;
    }
    std::optional<std::string> value = parseString();
    type = value.value_or("");
    return value.has_value();
  }
  bool parseFlag(bool &flag) {
    flag = take("True");
    return flag || take("False");
  }
  bool parseShape(std::vector<std::int64_t> &shape) {
    if (!take("("))
      return false;
    while (!take(")")) {
      skipSpaces();
      std::size_t digits = text.find_first_not_of("0123456789");
      auto size = parseDecimal(text.substr(0, digits));
      if (!size || *size > INT64_MAX)
        return false;
      shape.push_back(static_cast<std::int64_t>(*size));
      text.remove_prefix(digits);
      if (!take(",") && !peek(')'))
        return false;
    }
    return true;
  }

  std::string_view text;
};
} // namespace

/// Returns the element type that NumPy calls `type`; nothing for bf16 and FP8
/// of ml_dtypes, of which numpy.save writes only the size.
static std::optional<DType> findType(std::string_view type) {
  struct Named {
    std::string_view name;
    DType type;
  };
  static constexpr Named kTypes[] = {
      {"<f8", DType::F64}, {"<f4", DType::F32}, {"<f2", DType::F16},
      {"<i8", DType::I64}, {"<i4", DType::I32}, {"<i2", DType::I16},
      {"|i1", DType::I8},  {"<u8", DType::U64}, {"<u4", DType::U32},
      {"<u2", DType::U16}, {"|u1", DType::U8},  {"|b1", DType::BOOL}};
  for (const Named &named : kTypes)
    if (named.name == type)
      return named.type;
  return std::nullopt;
}

/// Returns what is to be done about an array whose type is not supported.
static std::string adviseOnType(std::string_view type) {
  if (type.starts_with(">"))
    return "is big-endian: write it with array.astype(array.dtype."
           "newbyteorder('<'))";
  if (type.starts_with("|O"))
    return "contains Python objects, expected numbers";
  if (type.starts_with("<V") || type.starts_with("|V"))
    return "its type is not in the file, as for bf16 and FP8 of ml_dtypes: "
           "write it with binade.safetensors.save";
  return "expected numbers or booleans";
}

Result<TensorInfo> binade::readNpyHeader(const std::string &name,
                                         std::uint64_t size,
                                         const ReadBytes &read,
                                         const std::string &where,
                                         const std::string &part) {
  auto reject = [&](std::string message) {
    return Error{where, std::move(message), ExitCode::Rejected, part};
  };
  std::byte head[12] = {};
  std::uint64_t available = std::min<std::uint64_t>(size, sizeof(head));
  if (Result<void> done = read(0, std::span(head).first(available)); !done)
    return done.takeError();
  if (size < sizeof(head) || std::memcmp(head, kMagic.data(), kMagic.size()))
    return reject("not a NumPy array: it does not begin with '\\x93NUMPY'");
  // Version 1 has a length of two bytes; versions 2 and 3 have one of four.
  auto version = static_cast<unsigned>(head[6]);
  if (version < 1 || version > 3)
    return reject("version " + std::to_string(version) +
                  " of NumPy's format, expected 1, 2 or 3");
  std::uint64_t start = version == 1 ? 10 : 12, length = 0;
  std::memcpy(&length, head + 8, start - 8);
  if (length > kMaxHeader)
    return reject("its header would have " + std::to_string(length) +
                  " bytes, the limit is " + std::to_string(kMaxHeader));
  if (length > size - start)
    return reject("the header has " + std::to_string(length) +
                  " bytes, but only " + std::to_string(size - start) +
                  " bytes are left in the file: is it cut off?");
  std::string text(length, '\0');
  if (Result<void> done = read(start, std::as_writable_bytes(std::span(text)));
      !done)
    return done.takeError();
  std::optional<Header> header = Parser(text).parse();
  if (!header)
    return reject("cannot parse the header " + quote(text));
  std::optional<DType> type = findType(header->type);
  if (!type)
    return reject("type " + quote(header->type) + ": " +
                  adviseOnType(header->type));
  if (header->isFortran)
    return reject("is in Fortran order: write it with "
                  "numpy.ascontiguousarray(array)");
  TensorInfo tensor{name, *type, header->shape, start + length,
                    byteSize(*type)};
  for (std::int64_t axis : header->shape)
    if (__builtin_mul_overflow(tensor.bytes, static_cast<std::uint64_t>(axis),
                               &tensor.bytes))
      return reject("its shape has too many elements");
  if (tensor.bytes != size - tensor.offset)
    return reject("its shape needs " + std::to_string(tensor.bytes) +
                  " bytes, but the file has " +
                  std::to_string(size - tensor.offset) +
                  " after the header: is it cut off?");
  return tensor;
}
