//===- Elementwise.cpp - one element in, one element out ------------------===//

#include "Subgradients.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Elementwise.cpp.inc"
