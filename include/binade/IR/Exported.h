//===- Exported.h - Attributes of imported training graphs ------*- C++ -*-===//

#ifndef BINADE_IR_EXPORTED_H
#define BINADE_IR_EXPORTED_H

#include "llvm/ADT/StringRef.h"

namespace mlir::binade {

/// The name of the function that has gradients, but no updates yet.
inline constexpr llvm::StringLiteral kGradientName = "gradient";

/// On a parameter whose update was imported with the graph: its rule in the
/// module.
inline constexpr llvm::StringLiteral kOptimizerAttr = "binade.optimizer";

/// On the function: a description of what was done with the backward pass that
/// the imported graph contained.
inline constexpr llvm::StringLiteral kBackwardAttr = "binade.backward";

/// On the function: the names of the inputs that were learning rates in the
/// imported updates. The hyper-parameter `lr` of their rules replaces them.
inline constexpr llvm::StringLiteral kRatesAttr = "binade.rates";

} // namespace mlir::binade

#endif // BINADE_IR_EXPORTED_H
