//===- Printable.cpp - Escaping of text from files ------------------------===//

#include "binade/Container/Printable.h"
#include <cstdint>

namespace binade {

namespace {
/// One character of a text: its bytes and code point, or a single byte that is
/// not UTF-8.
struct Character {
  std::string_view bytes;
  std::uint32_t number;
  bool valid;
};
} // namespace

/// Decodes the first character by Unicode's table of well-formed sequences
/// (no surrogates, no overlong forms, nothing above U+10FFFF).
static Character firstCharacter(std::string_view text) {
  auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = at(0);
  if (lead < 0x80)
    return {text.substr(0, 1), lead, true};
  std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  Character bad = {text.substr(0, 1), lead, false};
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size)
    return bad;
  std::uint32_t number = lead & (0xff >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xc0) != 0x80)
      return bad;
    number = (number << 6) | (at(i) & 0x3f);
  }
  bool overlong = number < (size == 3 ? 0x800u : size == 4 ? 0x10000u : 0x80u);
  bool surrogate = number >= 0xd800 && number <= 0xdfff;
  if (overlong || surrogate || number > 0x10ffff)
    return bad;
  return {text.substr(0, size), number, true};
}

/// Whether a character moves the cursor, hides text or changes its direction.
static bool disturbsTerminal(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c ||
         (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

static std::string hex(std::uint32_t number) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), digits[number & 15]);
    number >>= 4;
  } while (number);
  return text;
}

static std::string escaped(const Character &c, bool quotes) {
  if (c.valid && c.number == '\n')
    return "\\n";
  if (c.valid && c.number == '\t')
    return "\\t";
  if (c.valid && (c.number == '\\' || (quotes && c.number == '\'')))
    return std::string("\\") + static_cast<char>(c.number);
  if (!c.valid || (c.number < 0x80 && disturbsTerminal(c.number)))
    return (c.number < 16 ? "\\x0" : "\\x") + hex(c.number);
  if (disturbsTerminal(c.number))
    return "\\u{" + hex(c.number) + "}";
  return std::string(c.bytes);
}

static std::string escape(std::string_view bytes, std::size_t limit,
                          bool quotes) {
  static constexpr std::string_view ellipsis = "...";
  std::string text;
  std::size_t whole = 0; // Where to truncate so that the ellipsis fits.
  while (!bytes.empty()) {
    Character c = firstCharacter(bytes);
    text += escaped(c, quotes);
    if (text.size() > limit)
      return text.substr(0, whole) + std::string(ellipsis);
    if (text.size() + ellipsis.size() <= limit)
      whole = text.size();
    bytes.remove_prefix(c.bytes.size());
  }
  return text;
}

std::string printable(std::string_view bytes, std::size_t limit) {
  return escape(bytes, limit, /*quotes=*/false);
}

std::string quote(std::string_view bytes) {
  return "'" + escape(bytes, 200, /*quotes=*/true) + "'";
}

std::string quoteGlob(std::string_view name) {
  constexpr std::string_view kSpecial = "*?[{\\";
  std::string text;
  while (!name.empty()) {
    Character c = firstCharacter(name);
    name.remove_prefix(c.bytes.size());
    std::string digits = hex(c.number);
    if (!c.valid)
      text += '?';
    else if (disturbsTerminal(c.number))
      text += "\\u" + std::string(4 - digits.size(), '0') + digits;
    else if (c.number == '"')
      text += "\\\"";
    else if (c.number == '\\')
      text += "\\\\\\\\";
    else if (kSpecial.find(c.bytes) != kSpecial.npos)
      text += "\\\\" + std::string(c.bytes);
    else
      text += c.bytes;
  }
  return '"' + text + '"';
}

bool isUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    Character c = firstCharacter(bytes);
    if (!c.valid)
      return false;
    bytes.remove_prefix(c.bytes.size());
  }
  return true;
}

} // namespace binade
