//===- Passes.h - Passes of the Precision phase -----------------*- C++ -*-===//

#ifndef BINADE_PRECISION_PASSES_H
#define BINADE_PRECISION_PASSES_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::binade {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "binade/Precision/Passes.h.inc"
} // namespace mlir::binade

#endif // BINADE_PRECISION_PASSES_H
