//===- Exported.h - what a graph of training brings along -------*- C++ -*-===//

#ifndef BINADE_IR_EXPORTED_H
#define BINADE_IR_EXPORTED_H

#include "llvm/ADT/StringRef.h"

namespace mlir::binade {

/// Name of the function that has gradients, and no updates yet.
inline constexpr llvm::StringLiteral kGradientName = "gradient";

/// On a parameter whose graph came with its update: the rule, in the module.
inline constexpr llvm::StringLiteral kOptimizerAttr = "binade.optimizer";

/// On the function: what became of the backward part that the graph brought, in
/// words.
inline constexpr llvm::StringLiteral kBackwardAttr = "binade.backward";

/// On the function: names of the inputs that its updates had as learning rates,
/// which the hyper-parameter `lr` of their rules has taken the place of.
inline constexpr llvm::StringLiteral kRatesAttr = "binade.rates";

} // namespace mlir::binade

#endif // BINADE_IR_EXPORTED_H
