//===- Stack.h - blocks that a model repeats --------------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_STACK_H
#define BINADE_TOOLS_BINADE_STACK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

/// Blocks of one kind, one after the other, such as the layers of a
/// transformer. They are recognized by names of parameters:
/// `blocks.3.norm.weight` belongs to block 3 of stack `blocks`.
struct Stack {
  std::string name;
  std::int64_t depth; ///< At least 2.
};

/// The stacks of `@forward` that `setDepth` can change; of nested ones the
/// outermost.
std::vector<Stack> findStacks(mlir::func::FuncOp forward);

/// Repeats or drops the last block but one of a stack until there are `depth`,
/// at least 1. New parameters have names and initial values like the block's.
void setDepth(mlir::func::FuncOp forward, llvm::StringRef stack,
              std::int64_t depth);

#endif // BINADE_TOOLS_BINADE_STACK_H
