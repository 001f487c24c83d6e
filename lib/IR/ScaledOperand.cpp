//===- ScaledOperand.cpp - Operands with constant scales ------------------===//

#include "binade/IR/ScaledOperand.h"
#include "binade/IR/Formats.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr StringLiteral kExponentKey = "exponent", kFormatKey = "format",
                               kRuleKey = "rule";

bool mlir::binade::hasScalableOperands(Operation *op) {
  return llvm::is_contained(kScalableOps, op->getName().stripDialect());
}

Attribute mlir::binade::buildScaledOperand(MLIRContext *context,
                                           const ScaledOperand &operand) {
  Builder b(context);
  return b.getDictionaryAttr(
      {b.getNamedAttr(kExponentKey, b.getI64IntegerAttr(operand.exponent)),
       b.getNamedAttr(kFormatKey, TypeAttr::get(operand.format)),
       b.getNamedAttr(kRuleKey, b.getStringAttr(operand.rule))});
}

/// Reads an entry; none if it is not valid.
static std::optional<ScaledOperand> readEntry(DictionaryAttr entry) {
  auto exponent = entry.getAs<IntegerAttr>(kExponentKey);
  auto type = entry.getAs<TypeAttr>(kFormatKey);
  auto format = type ? dyn_cast<FloatType>(type.getValue()) : FloatType();
  auto rule = entry.getAs<StringAttr>(kRuleKey);
  constexpr size_t kFields = 3;
  if (!exponent || !exponent.getType().isSignlessInteger(64) || !format ||
      !rule || entry.size() != kFields)
    return std::nullopt;
  return ScaledOperand{format, exponent.getInt(), rule.getValue()};
}

std::string mlir::binade::explainInvalidScale(DictionaryAttr entry) {
  std::optional<ScaledOperand> operand = readEntry(entry);
  if (!operand)
    return "a scaled operand is {exponent = N : i64, format = TYPE, rule = "
           "\"TEXT\"}, not " +
           llvm::to_string(entry);
  if (std::abs(operand->exponent) > kMaxScaleExponent)
    return "the exponent of a scale is within -" +
           std::to_string(kMaxScaleExponent) + " and " +
           std::to_string(kMaxScaleExponent) + ", not " +
           std::to_string(operand->exponent);
  if (!isOneOf(operand->format, kComputedFloats) &&
      !isOneOf(operand->format, kByteFloats))
    return "a scaled operand has a format of up to 32 bits, not " +
           llvm::to_string(operand->format);
  return {};
}

std::optional<ScaledOperand>
mlir::binade::getScaledOperand(PrecisionAttr decision, unsigned index) {
  ArrayAttr operands = decision ? decision.getOperands() : ArrayAttr();
  auto entry = operands && index < operands.size()
                   ? dyn_cast<DictionaryAttr>(operands[index])
                   : DictionaryAttr();
  return entry ? readEntry(entry) : std::nullopt;
}

bool mlir::binade::scalesOperands(PrecisionAttr decision) {
  return decision && decision.getOperands() &&
         llvm::any_of(decision.getOperands(), llvm::IsaPred<DictionaryAttr>);
}

PrecisionAttr mlir::binade::withoutScaledOperands(PrecisionAttr decision) {
  SmallVector<Attribute> plain;
  for (Attribute entry : decision.getOperands())
    plain.push_back(isa<DictionaryAttr>(entry)
                        ? Attribute(UnitAttr::get(decision.getContext()))
                        : entry);
  bool isPlain = llvm::all_of(plain, llvm::IsaPred<UnitAttr>);
  return PrecisionAttr::get(
      decision.getContext(), decision.getCompute(), decision.getAccumulate(),
      decision.getResult(),
      isPlain ? ArrayAttr() : ArrayAttr::get(decision.getContext(), plain),
      decision.getTransform(), decision.getAccumulation(), decision.getClamp(),
      decision.getRule());
}

std::string mlir::binade::describe(const ScaledOperand &operand) {
  return llvm::to_string(operand.format) + " * 2^" +
         std::to_string(operand.exponent) + " (" + operand.rule.str() + ")";
}
