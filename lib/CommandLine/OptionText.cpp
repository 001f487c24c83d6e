//===- OptionText.cpp - What help says of an option -----------------------===//

#include "OptionText.h"

using namespace binade;

/// Splits the text that CLI11 composes, `TYPE:{a, b}`: what a value is, and the
/// words that `oneOf` accepts.
static std::pair<std::string, std::vector<std::string>>
splitType(const std::string &text) {
  std::size_t begin = text.rfind('{'), end = text.rfind('}');
  std::vector<std::string> choices;
  if (begin == text.npos || begin == 0 || end != text.size() - 1)
    return {text, choices};
  std::size_t word = begin + 1;
  while (word < end) {
    std::size_t comma = std::min(text.find(", ", word), end);
    choices.push_back(text.substr(word, comma - word));
    word = comma + 2;
  }
  return {text.substr(0, begin - 1), choices}; // Without the colon.
}

/// Replaces CLI11's names of number types.
static std::string nameValue(const std::string &type) {
  return type == "INT" || type == "UINT" ? "N" : type;
}

static std::string toUpper(std::string text) {
  for (char &letter : text)
    if (letter >= 'a' && letter <= 'z')
      letter = static_cast<char>(letter - 'a' + 'A');
  return text;
}

OptionText binade::describeOption(const CLI::Option &option) {
  OptionText text;
  for (const std::string &name : option.get_snames())
    text.names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    text.names.push_back("--" + name);
  text.repeats = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() == 0)
    return text;
  std::tie(text.value, text.choices) = splitType(option.get_type_name());
  text.value = nameValue(text.value);
  if (text.names.empty() && (text.value.empty() || text.value == "TEXT"))
    text.value = toUpper(option.get_name());
  return text;
}
