//===- SavedLedger.h - List values saved for backward -----------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_SAVEDLEDGER_H
#define BINADE_TOOLS_BINADE_SAVEDLEDGER_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

/// What a budget made of the values that the backward part reads: a line for
/// each choice, and the sum. Nothing for a module without a budget.
void printSavedTotals(llvm::raw_ostream &out, mlir::ModuleOp module);

/// The values one by one.
void printSavedValues(llvm::raw_ostream &out, mlir::ModuleOp module);
llvm::json::Value toJson(mlir::ModuleOp module);

#endif // BINADE_TOOLS_BINADE_SAVEDLEDGER_H
