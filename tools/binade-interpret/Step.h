//===- Step.h - Wrap a function as a training step --------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_INTERPRET_STEP_H
#define BINADE_TOOLS_BINADE_INTERPRET_STEP_H

#include "mlir/IR/BuiltinOps.h"

/// Returns a copy of the module in which function `name` is the program `step`.
/// Its arguments become buffers and its results outputs, whatever their roles
/// in training; other programs are erased. Loads the dialects that the compiler
/// needs.
mlir::OwningOpRef<mlir::ModuleOp> makeStep(mlir::ModuleOp module,
                                           llvm::StringRef name);

/// Runs the phases that form kernels, unless the step launches kernels already.
llvm::LogicalResult formKernels(mlir::ModuleOp module);

#endif // BINADE_TOOLS_BINADE_INTERPRET_STEP_H
