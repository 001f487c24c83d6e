//===- Binary.cpp - elementwise ops of two and more operands --------------===//

#include "Subgradients.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Binary.cpp.inc"
