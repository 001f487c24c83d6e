//===- Elementwise.cpp - Elementwise ops ----------------------------------===//

#include "NarrowActivations.h"
#include "Subgradients.h"
#include "binade/IR/Accuracy.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

std::function<double(double)>
mlir::binade::multiplyBy(std::optional<double> sign) {
  if (!sign)
    return {};
  return [sign = *sign](double element) { return sign * element; };
}

/// The map of an op that copies some elements of its operand.
static double keep(double element) { return element; }

std::function<double(double)> AbsOp::getElementMap(unsigned) { return keep; }
std::function<double(double)> ReluOp::getElementMap(unsigned) { return keep; }
std::function<double(double)> MaxOp::getElementMap(unsigned) { return keep; }
std::function<double(double)> MinOp::getElementMap(unsigned) { return keep; }
std::function<double(double)> SqrtOp::getElementMap(unsigned) {
  return [](double element) { return std::sqrt(element); };
}
std::function<double(double)> ReciprocalOp::getElementMap(unsigned) {
  return [](double element) { return 1.0 / element; };
}

#define GET_OP_CLASSES
#include "binade/IR/Ops/Elementwise.cpp.inc"
