//===- Json.cpp - JSON from untrusted files -------------------------------===//
// nlohmann's parser is iterative and reports events. Building the value from
// them here makes it possible to limit nesting and to detect repeated keys.
//===----------------------------------------------------------------------===//

#include "binade/Container/Json.h"

namespace binade {

using nlohmann::json;

namespace {

/// Iterates over the text and counts the bytes that the parser has consumed,
/// because its events have no position.
class CountingIterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  CountingIterator(const char *at, std::size_t *consumed)
      : at(at), consumed(consumed) {}
  reference operator*() const { return *at; }
  CountingIterator &operator++() {
    ++at;
    ++*consumed;
    return *this;
  }
  bool operator==(const CountingIterator &other) const {
    return at == other.at;
  }
  bool operator!=(const CountingIterator &other) const {
    return at != other.at;
  }

private:
  const char *at;
  std::size_t *consumed;
};

class Builder : public nlohmann::json_sax<json> {
public:
  Builder(JsonLimits limits, const std::size_t &consumed)
      : limits(limits), consumed(consumed) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string &) override {
    return add(value);
  }
  bool string(std::string &value) override { return add(std::move(value)); }
  bool binary(json::binary_t &) override {
    return fail(consumed, "binary value"); // Not reported for JSON text.
  }

  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string &name) override {
    auto [entry, isNew] = stack.back()->emplace(name, nullptr);
    if (!isNew)
      return fail(consumed, "key " + quote(name) + " is given twice");
    slot = &*entry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string &,
                   const json::exception &exception) override {
    // Keep only the reason; the library's tag, its line number and the quoted
    // text are redundant with the byte offset.
    std::string_view reason = exception.what();
    if (std::size_t tag = reason.find("] "); tag != reason.npos)
      reason.remove_prefix(tag + 2);
    if (reason.starts_with("parse error"))
      if (std::size_t colon = reason.find(": "); colon != reason.npos)
        reason.remove_prefix(colon + 2);
    reason = reason.substr(0, reason.find("; last read"));
    return fail(position, "not valid JSON: " + printable(reason));
  }

  json root;
  std::string failure;
  std::size_t failurePosition = 0;

private:
  bool fail(std::size_t position, std::string message) {
    failure = std::move(message);
    failurePosition = position;
    return false;
  }

  json *place(json value) {
    if (stack.empty())
      return &(root = std::move(value));
    if (stack.back()->is_array())
      return &stack.back()->emplace_back(std::move(value));
    return &(*slot = std::move(value));
  }

  bool add(json value) {
    if (++values > limits.values)
      return fail(consumed, tooMany());
    place(std::move(value));
    return true;
  }

  bool open(json value) {
    if (stack.size() == limits.depth)
      return fail(consumed, "nested deeper than " +
                                std::to_string(limits.depth) + " levels");
    if (++values > limits.values)
      return fail(consumed, tooMany());
    stack.push_back(place(std::move(value)));
    return true;
  }

  std::string tooMany() const {
    return "more than " + std::to_string(limits.values) + " values";
  }

  bool close() {
    stack.pop_back();
    return true;
  }

  JsonLimits limits;
  std::size_t values = 0;
  const std::size_t &consumed;
  std::vector<json *> stack;
  json *slot = nullptr; ///< The value of the last key.
};

} // namespace

Result<json> parseJson(std::string_view text, std::string_view where,
                       JsonLimits limits) {
  std::string file(where);
  if (text.size() > limits.bytes)
    return Error{file,
                 "JSON text has " + std::to_string(text.size()) +
                     " bytes, the limit is " + std::to_string(limits.bytes),
                 ExitCode::Rejected};
  if (text.starts_with("\xef\xbb\xbf"))
    return Error{file,
                 "JSON text begins with a byte order mark; save it as UTF-8 "
                 "without one",
                 ExitCode::Rejected, "byte 0"};
  // The parser stops at a NUL byte and would ignore the text after it.
  if (std::size_t nul = text.find('\0'); nul != text.npos)
    return Error{file, "not valid JSON: NUL byte", ExitCode::Rejected,
                 "byte " + std::to_string(nul)};
  std::size_t consumed = 0;
  Builder builder(limits, consumed);
  CountingIterator begin(text.data(), &consumed);
  CountingIterator end(text.data() + text.size(), &consumed);
  if (!json::sax_parse(begin, end, &builder))
    return Error{file, builder.failure, ExitCode::Rejected,
                 "byte " + std::to_string(builder.failurePosition)};
  return std::move(builder.root);
}

} // namespace binade
