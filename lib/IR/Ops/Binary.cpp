//===- Binary.cpp - Elementwise ops with several operands -----------------===//
//
// The methods are defined in Binary.td; adjoints call the functions of
// Subgradients.h.
//
//===----------------------------------------------------------------------===//

#include "Subgradients.h"
#include "binade/IR/RoundingError.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Binary.cpp.inc"
