//===- Passes.h - passes of the Raising station -----------------*- C++ -*-===//

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

/// Does what `binade-recognize-composites` does in `function`, then erases the
/// ops without users.
void recognizeComposites(func::FuncOp function);

/// Makes biases part of the matmuls that they are added to, as
/// `recognizeComposites` does, and changes nothing else; then erases the ops
/// without users.
void recognizeLinear(func::FuncOp function);
} // namespace mlir::binade

#endif // BINADE_RAISING_PASSES_H
