//===- SavedLedger.h - List values saved for backward -----------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_SAVEDLEDGER_H
#define BINADE_TOOLS_BINADE_SAVEDLEDGER_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

/// Prints how many saved values are kept, recomputed or quantized under a
/// budget, and their bytes. Prints nothing for a module without a budget.
void printSavedTotals(llvm::raw_ostream &out, mlir::ModuleOp module);

/// Prints one line for each saved value.
void printSavedValues(llvm::raw_ostream &out, mlir::ModuleOp module);
llvm::json::Value toJson(mlir::ModuleOp module);

#endif // BINADE_TOOLS_BINADE_SAVEDLEDGER_H
