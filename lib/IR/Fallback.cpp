//===- Fallback.cpp - Deviations of a target from a decision --------------===//

#include "binade/IR/QuantizedOperands.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

std::optional<Fallback> mlir::binade::findDequantized(Operation *op,
                                                      PrecisionAttr decision) {
  std::string codes = describeQuantizedOperands(decision);
  if (codes.empty())
    return std::nullopt;
  return Fallback{codes, llvm::to_string(decision.getCompute()),
                  ("no library has a '" + op->getName().stripDialect() +
                   "' of quantized operands")
                      .str(),
                  ""};
}

void mlir::binade::setFallback(Operation *op, const Fallback &fallback) {
  Builder b(op->getContext());
  NamedAttrList texts;
  for (auto [name, text] : {std::pair("decided", &fallback.decided),
                            std::pair("computed", &fallback.computed),
                            std::pair("reason", &fallback.reason),
                            std::pair("nearest", &fallback.nearest)})
    if (!text->empty())
      texts.append(name, b.getStringAttr(*text));
  op->setAttr(kFallbackAttr, texts.getDictionary(op->getContext()));
}

Fallback mlir::binade::readFallback(DictionaryAttr attribute) {
  auto read = [&](StringRef name) {
    auto text = attribute.getAs<StringAttr>(name);
    return text ? text.str() : std::string();
  };
  return {read("decided"), read("computed"), read("reason"), read("nearest")};
}

std::optional<Fallback> mlir::binade::getFallback(Operation *op) {
  auto attribute = op->getAttrOfType<DictionaryAttr>(kFallbackAttr);
  return attribute ? std::optional(readFallback(attribute)) : std::nullopt;
}
