//===- Elementwise.cpp - elementwise ops of one operand -------------------===//

#include "Subgradients.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Elementwise.cpp.inc"
