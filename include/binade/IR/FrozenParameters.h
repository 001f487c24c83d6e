//===- FrozenParameters.h - Parameters that are not trained -----*- C++ -*-===//

#ifndef BINADE_IR_FROZENPARAMETERS_H
#define BINADE_IR_FROZENPARAMETERS_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// Marks a buffer that is a parameter of the model which is not trained.
inline constexpr StringLiteral kFrozenAttr = "binade.frozen";

/// Returns the names of the model's parameters, trained ones first.
SmallVector<StringRef> getParameterNames(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_IR_FROZENPARAMETERS_H
