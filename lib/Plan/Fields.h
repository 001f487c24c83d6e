//===- Fields.h - Checked access to JSON objects ----------------*- C++ -*-===//

#ifndef BINADE_LIB_PLAN_FIELDS_H
#define BINADE_LIB_PLAN_FIELDS_H

#include "binade/Container/Json.h"
#include "binade/Container/Printable.h"

namespace binade::plan {

/// Reads the keys of a JSON object. Each is read at most once, and `finish`
/// rejects keys that were not read. Throws Error, which the reader of the whole
/// document catches.
class Fields {
public:
  Fields(const nlohmann::json &object, std::string_view where, std::string part)
      : where(where), part(std::move(part)) {
    if (!object.is_object())
      throw error("expected an object");
    for (const auto &[key, value] : object.items())
      left.emplace(key, &value);
  }

  Error error(std::string message) const {
    return Error{where, std::move(message), ExitCode::Rejected, part};
  }
  Error error(std::string_view key, std::string_view expected) const {
    return error("key " + quote(key) + " is not " + std::string(expected));
  }

  const nlohmann::json *find(std::string_view key) {
    auto it = left.find(key);
    if (it == left.end())
      return nullptr;
    const nlohmann::json *value = it->second;
    left.erase(it);
    return value;
  }
  const nlohmann::json &get(std::string_view key) {
    if (const nlohmann::json *value = find(key))
      return *value;
    throw error("key " + quote(key) + " is missing");
  }

  std::int64_t toInteger(std::string_view key,
                         const nlohmann::json &value) const {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX))
      throw error(key, "an integer of 64 bits");
    return value.get<std::int64_t>();
  }
  std::int64_t integer(std::string_view key) {
    return toInteger(key, get(key));
  }
  std::int64_t integer(std::string_view key, std::int64_t absent) {
    const nlohmann::json *value = find(key);
    return value ? toInteger(key, *value) : absent;
  }
  std::uint64_t size(std::string_view key, std::int64_t absent = -1) {
    std::int64_t value = absent < 0 ? integer(key) : integer(key, absent);
    if (value < 0)
      throw error(key, "a size");
    return static_cast<std::uint64_t>(value);
  }
  std::uint32_t index(std::string_view key, std::int64_t absent = -1) {
    std::int64_t value = absent < 0 ? integer(key) : integer(key, absent);
    if (value < 0 || value > UINT32_MAX)
      throw error(key, "an index");
    return static_cast<std::uint32_t>(value);
  }
  double toNumber(std::string_view key, const nlohmann::json &value) const {
    if (!value.is_number())
      throw error(key, "a number");
    return value.get<double>();
  }
  double number(std::string_view key) { return toNumber(key, get(key)); }
  std::optional<double> optionalNumber(std::string_view key) {
    const nlohmann::json *value = find(key);
    return value ? std::optional(toNumber(key, *value)) : std::nullopt;
  }
  bool flag(std::string_view key) {
    const nlohmann::json *value = find(key);
    if (value && !value->is_boolean())
      throw error(key, "true or false");
    return value && value->get<bool>();
  }
  std::string toText(std::string_view key, const nlohmann::json &value) const {
    if (!value.is_string())
      throw error(key, "a text");
    return value.get<std::string>();
  }
  std::string text(std::string_view key) { return toText(key, get(key)); }
  std::string optionalText(std::string_view key) {
    const nlohmann::json *value = find(key);
    return value ? toText(key, *value) : std::string();
  }
  std::vector<std::int64_t> integers(std::string_view key) {
    const nlohmann::json *value = find(key);
    if (!value)
      return {};
    if (!value->is_array())
      throw error(key, "a list of integers");
    std::vector<std::int64_t> list;
    for (const nlohmann::json &element : *value)
      list.push_back(toInteger(key, element));
    return list;
  }
  /// Calls `read(element, index)` for each element of an optional list.
  template <typename Read> void each(std::string_view key, Read read) {
    const nlohmann::json *value = find(key);
    if (!value)
      return;
    if (!value->is_array())
      throw error(key, "a list");
    for (std::size_t i = 0; i < value->size(); ++i)
      read((*value)[i], i);
  }
  template <typename Enum, typename Parse>
  Enum named(std::string_view key, Parse parse, std::string_view expected) {
    std::string word = text(key);
    if (std::optional<Enum> value = parse(word))
      return *value;
    throw error(std::string(expected) + " " + quote(word) + " is not known");
  }
  Fields inner(const nlohmann::json &object, std::string_view key) const {
    return Fields(object, where,
                  part.empty() ? std::string(key)
                               : part + " " + std::string(key));
  }

  void finish() const {
    if (!left.empty())
      throw error("key " + quote(left.begin()->first) + " is not known");
  }

private:
  std::string where, part;
  std::map<std::string, const nlohmann::json *, std::less<>> left;
};

} // namespace binade::plan

#endif // BINADE_LIB_PLAN_FIELDS_H
