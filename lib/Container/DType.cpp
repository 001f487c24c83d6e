//===- DType.cpp - Element types of stored tensors ------------------------===//

#include "binade/Container/DType.h"
#include <array>
#include <string>

namespace binade {

namespace {
struct Row {
  std::string_view name;
  std::uint8_t bytes;
};
} // namespace

// In the order of the enum.
static constexpr std::array<Row, kNumDTypes> rows = {{
    {"F64", 8},
    {"F32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"F8_E8M0", 1},
    {"I64", 8},
    {"I32", 4},
    {"I16", 2},
    {"I8", 1},
    {"U64", 8},
    {"U32", 4},
    {"U16", 2},
    {"U8", 1},
    {"BOOL", 1},
}};

static const Row &row(DType type) {
  return rows[static_cast<std::size_t>(type)];
}

std::size_t byteSize(DType type) { return row(type).bytes; }

std::string_view name(DType type) { return row(type).name; }

bool isFloat(DType type) { return type <= DType::F8_E8M0; }

std::optional<DType> parseDType(std::string_view name) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].name == name)
      return static_cast<DType>(i);
  return std::nullopt;
}

std::string_view knownDTypes() {
  static const std::string text = [] {
    std::string names;
    for (const Row &row : rows)
      names += (names.empty() ? "" : " ") + std::string(row.name);
    return names;
  }();
  return text;
}

} // namespace binade
