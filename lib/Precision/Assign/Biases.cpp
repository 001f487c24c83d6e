//===- Biases.cpp - Formats of the biases of contractions -----------------===//

#include "binade/Precision/Biases.h"

using namespace mlir;
using namespace mlir::binade;

bool mlir::binade::isBias(PrecisionOpInterface op, unsigned index) {
  constexpr unsigned kFactors = 2;
  return op.accumulates() && index == kFactors &&
         op->getNumOperands() == kFactors + 1 &&
         op.getOperandFormat(index) == FormatRole::Wide;
}

FloatType mlir::binade::getBiasFormat(PrecisionAttr decision) {
  if (decision.getOperands())
    for (auto type : decision.getOperands().getAsRange<Attribute>())
      if (auto bias = dyn_cast<TypeAttr>(type))
        return cast<FloatType>(bias.getValue());
  return {};
}

FloatType mlir::binade::getWideFormat(PrecisionAttr decision, unsigned index) {
  ArrayAttr operands = decision.getOperands();
  auto type = operands && index < operands.size()
                  ? dyn_cast<TypeAttr>(operands[index])
                  : TypeAttr();
  return type ? cast<FloatType>(type.getValue())
              : FloatType(Float32Type::get(decision.getContext()));
}
