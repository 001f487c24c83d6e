//===- Passes.h - Raising passes --------------------------------*- C++ -*-===//

#ifndef BINADE_RAISING_PASSES_H
#define BINADE_RAISING_PASSES_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::binade {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "binade/Raising/Passes.h.inc"

/// Replaces decomposed composites in `function` by single ops, as the pass
/// `binade-recognize-composites`. Then erases ops without users.
void recognizeComposites(func::FuncOp function);

/// Merges biases into the matmuls that they are added to; the part of
/// `recognizeComposites` for matmuls only. Then erases ops without users.
void recognizeLinear(func::FuncOp function);
} // namespace mlir::binade

#endif // BINADE_RAISING_PASSES_H
