//===- Policy.cpp - Precision policies ------------------------------------===//

#include "binade/Precision/Policy.h"
#include "binade/IR/Diagnostics.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

int64_t CountOrShare::resolve(int64_t all) const {
  double total = static_cast<double>(all);
  double count = isShare ? std::round(number * total) : number;
  return static_cast<int64_t>(std::min(count, total));
}

std::string CountOrShare::print() const {
  return isShare ? formatNumber(100 * number) + "%" : formatNumber(number);
}

bool mlir::binade::hasChosenFormat(PrecisionOpInterface op) {
  for (unsigned i = 0, e = op->getNumOperands(); i < e; ++i)
    if (op.getOperandFormat(i) == FormatRole::Chosen)
      return true;
  for (unsigned i = 0, e = op->getNumResults(); i < e; ++i)
    if (op.getResultFormat(i) == FormatRole::Chosen)
      return true;
  return false;
}

std::string mlir::binade::getOrigin(PrecisionClass precisionClass) {
  return ("class " + stringifyPrecisionClass(precisionClass)).str();
}

SmallVector<FloatType> mlir::binade::getFormatChoices(const Policy &policy) {
  SmallVector<FloatType> formats = {policy.wide};
  if (!policy.cut || policy.cut->formats.empty())
    formats.push_back(policy.narrow);
  else
    for (const CutFormat &choice : policy.cut->formats)
      if (!llvm::is_contained(formats, choice.format))
        formats.push_back(choice.format);
  return formats;
}
