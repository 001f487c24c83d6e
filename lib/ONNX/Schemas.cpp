//===- Schemas.cpp - Signatures of ONNX operators -------------------------===//

#include "binade/ONNX/Schemas.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::binade;

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

SmallVector<OpSchema::Attribute> OpSchema::getAttributes() const {
  SmallVector<Attribute> found;
  for (StringRef entry : llvm::split(attributes, ' ')) {
    if (entry.empty())
      continue;
    bool isRequired = entry.consume_back("!");
    auto [name, type] = entry.split('=');
    int number = 0;
    (void)type.getAsInteger(10, number);
    found.push_back({name, number, isRequired});
  }
  return found;
}

const OpSchema *mlir::binade::findSchema(StringRef domain, StringRef name,
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

bool mlir::binade::canCast(const OperatorSets &sets, int32_t type) {
  const OpSchema *schema = findSchema("", "Cast", sets);
  return schema && schema->allows(schema->outputs.front(), type);
}
