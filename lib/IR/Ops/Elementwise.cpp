//===- Elementwise.cpp - one element in, one element out ------------------===//

#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Elementwise.cpp.inc"
