//===- ImportReport.h - what import made of a graph -------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_IMPORTREPORT_H
#define BINADE_TOOLS_BINADE_IMPORTREPORT_H

#include "mlir/IR/BuiltinOps.h"

/// Prints what an imported module is: which inputs are what, the ops of each
/// part by kind, and, where it came with gradients, what updates parameters and
/// whether a loss scale has a place.
void printImported(llvm::raw_ostream &os, mlir::ModuleOp module);

#endif // BINADE_TOOLS_BINADE_IMPORTREPORT_H
