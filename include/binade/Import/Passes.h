//===- Passes.h - passes of the Import station ------------------*- C++ -*-===//

#ifndef BINADE_IMPORT_PASSES_H
#define BINADE_IMPORT_PASSES_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::binade {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "binade/Import/Passes.h.inc"

/// What `binade-recognize-composites` does, on one function.
void recognizeComposites(func::FuncOp function);

/// The part of it that makes a bias one of a product.
void recognizeLinear(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_IMPORT_PASSES_H
