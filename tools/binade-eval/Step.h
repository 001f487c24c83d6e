//===- Step.h - a function as the step that backends compile ----*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_EVAL_STEP_H
#define BINADE_TOOLS_BINADE_EVAL_STEP_H

#include "mlir/IR/BuiltinOps.h"

/// A copy of the module in which `name` is the step: its arguments are buffers,
/// which may have any shape, and its results outputs, whatever they are in
/// training. Loads the dialects that compiling needs.
mlir::OwningOpRef<mlir::ModuleOp> makeStep(mlir::ModuleOp module,
                                           llvm::StringRef name);

/// Has the step launch kernels, if it does not yet.
llvm::LogicalResult formKernels(mlir::ModuleOp module);

#endif // BINADE_TOOLS_BINADE_EVAL_STEP_H
