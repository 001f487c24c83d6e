//===- MutateJson.cpp - Changes of one value of JSON ----------------------===//

#include "Targets.h"
#include "nlohmann/json.hpp"
#include <cstring>
#include <random>
#include <vector>

using namespace binade::fuzz;
using nlohmann::ordered_json;

using Random = std::minstd_rand;

static std::size_t draw(Random &random, std::size_t count) {
  return count == 0 ? 0 : random() % count;
}

static void collect(ordered_json &value, std::vector<ordered_json *> &values) {
  values.push_back(&value);
  if (value.is_structured())
    for (ordered_json &part : value)
      collect(part, values);
}

static ordered_json drawNumber(Random &random, const ordered_json &old) {
  switch (draw(random, 8)) {
  case 0:
    return old.is_number_integer() ? old.get<std::int64_t>() / 2 : 0;
  case 1:
    return -1;
  case 2:
    return INT64_MAX;
  case 3:
    return UINT64_MAX;
  case 4:
    return 0.5;
  case 5:
    return std::int64_t(1) << draw(random, 63);
  default:
    return draw(random, 100);
  }
}

static void change(Random &random, ordered_json &root, Mutate mutate) {
  std::vector<ordered_json *> values;
  collect(root, values);
  ordered_json &value = *values[draw(random, values.size())];
  const ordered_json other = *values[draw(random, values.size())];
  switch (draw(random, 6)) {
  case 0: // This may change the kind of the value.
    value = other;
    return;
  case 1:
    if (value.is_structured() && !value.empty())
      value.erase(std::next(value.begin(), static_cast<std::ptrdiff_t>(
                                               draw(random, value.size()))));
    return;
  case 2:
    if (value.is_array())
      value.push_back(value.empty() ? other : value.back());
    else if (value.is_object())
      value[other.is_string() ? other.get<std::string>() : "x"] = other;
    return;
  default:
    if (value.is_number())
      value = drawNumber(random, value);
    else if (value.is_string())
      value = mutate(value.get<std::string>());
    else if (value.is_boolean())
      value = !value.get<bool>();
  }
}

std::string binade::fuzz::mutateJson(std::string bytes, unsigned seed,
                                     Mutate mutate) {
  Random random(seed);
  ordered_json root = ordered_json::parse(bytes, nullptr, false);
  if (root.is_discarded() || draw(random, 8) == 0)
    return mutate(std::move(bytes));
  for (std::size_t i = 0, end = 1 + draw(random, 3); i < end; ++i)
    change(random, root, mutate);
  using Handler = ordered_json::error_handler_t;
  return root.dump(-1, ' ', false, Handler::ignore);
}

std::string binade::fuzz::mutateSafetensors(std::string bytes, unsigned seed,
                                            Mutate mutate) {
  std::uint64_t length = 0;
  if (bytes.size() >= sizeof(length))
    std::memcpy(&length, bytes.data(), sizeof(length));
  if (length == 0 || length > bytes.size() - sizeof(length) || seed % 8 == 0)
    return mutate(std::move(bytes));
  std::string header =
      mutateJson(bytes.substr(sizeof(length), length), seed, mutate);
  std::string data = bytes.substr(sizeof(length) + length);
  length = header.size();
  std::string result(sizeof(length), '\0');
  std::memcpy(result.data(), &length, sizeof(length));
  return result + header + data;
}
