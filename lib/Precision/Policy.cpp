//===- Policy.cpp - What a user says about precision ----------------------===//

#include "binade/Precision/Policy.h"

using namespace mlir;
using namespace mlir::binade;

bool mlir::binade::hasChosenFormat(PrecisionOpInterface op) {
  for (unsigned i = 0, e = op->getNumOperands(); i < e; ++i)
    if (op.getOperandFormat(i) == FormatRole::Chosen)
      return true;
  for (unsigned i = 0, e = op->getNumResults(); i < e; ++i)
    if (op.getResultFormat(i) == FormatRole::Chosen)
      return true;
  return false;
}
