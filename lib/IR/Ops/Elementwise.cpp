//===- Elementwise.cpp - Elementwise ops ----------------------------------===//

#include "Subgradients.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Elementwise.cpp.inc"
