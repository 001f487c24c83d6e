//===- Schemas.cpp - What ONNX says of element types ----------------------===//

#include "Schemas.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::binade::convert;

/// Sorted by domain, name and version.
static constexpr OpSchema schemas[] = {
#include "OnnxSchemas.inc"
};

static std::optional<char> getLetter(StringRef letters, unsigned index) {
  bool isEndless = letters.ends_with("*") || letters.ends_with("+");
  size_t count = letters.size() - isEndless;
  if (index < count - (letters.ends_with("+") ? 1 : 0))
    return letters[index];
  return letters.ends_with("*") ? std::optional(letters[count - 1])
                                : std::nullopt;
}

std::optional<char> OpSchema::getInput(unsigned index) const {
  return getLetter(inputs, index);
}

std::optional<char> OpSchema::getOutput(unsigned index) const {
  return getLetter(outputs, index);
}

int32_t OpSchema::getOnlyType(char letter) const {
  uint64_t mask = allowed[letter - 'a'];
  return llvm::has_single_bit(mask) ? llvm::countr_zero(mask) : 0;
}

const OpSchema *mlir::binade::convert::findSchema(StringRef domain,
                                                  StringRef name,
                                                  const OperatorSets &sets) {
  if (domain == "ai.onnx")
    domain = "";
  auto set = sets.find(domain.str());
  if (set == sets.end())
    return nullptr;
  auto key = std::pair(domain, name);
  auto get = [](const OpSchema &schema) {
    return std::pair<StringRef, StringRef>(schema.domain, schema.name);
  };
  const OpSchema *row = std::upper_bound(
      std::begin(schemas), std::end(schemas), key,
      [&](const auto &key, const OpSchema &row) {
        return key < get(row) || (key == get(row) && row.since > set->second);
      });
  return row != std::begin(schemas) && get(row[-1]) == key ? &row[-1] : nullptr;
}

bool mlir::binade::convert::canCast(const OperatorSets &sets, int32_t type) {
  const OpSchema *schema = findSchema("", "Cast", sets);
  return schema && schema->allows(schema->outputs.front(), type);
}
