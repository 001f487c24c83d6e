//===- Fallback.h - what a target computes otherwise ------------*- C++ -*-===//
//
// A policy decides formats by op, role and layer. Whether the target has a
// library call or a kernel for them depends on shapes too. Where it has none,
// the op is computed otherwise, and says so: docs/decisions/0059-fallbacks.md.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_FALLBACK_H
#define BINADE_IR_FALLBACK_H

#include "binade/IR/Binade.h"
#include <optional>
#include <string>

namespace mlir::binade {

/// On a library call from the kernels phase on: a dictionary of the texts of a
/// `Fallback`, without those that are empty.
inline constexpr StringLiteral kFallbackAttr = "binade.fallback";

/// How an op is computed otherwise than it was decided.
struct Fallback {
  std::string decided, computed; ///< Formats; equal where only pieces differ.
  std::string reason;            ///< What the target lacks.
  std::string nearest; ///< The nearest larger shape that would do, if any.

  bool keepsFormats() const { return decided == computed; }
};

/// How the target of the op's module computes it, where that is not as it was
/// decided. Asked before the op is decomposed.
std::optional<Fallback> findFallback(Operation *op);

/// What is said of a library call.
void setFallback(Operation *op, const Fallback &fallback);
std::optional<Fallback> getFallback(Operation *op);
/// Of the attribute.
Fallback readFallback(DictionaryAttr attribute);

/// The parts of `findFallback`, each beside its op.
std::optional<Fallback> findFallbackOf(MatmulOp op);
std::optional<Fallback> findFallbackOf(AttentionOp op);
std::optional<Fallback> findFallbackOf(AttentionGradOp op);
/// Of the three convolutions.
std::optional<Fallback> findFallbackOfConvolution(PrecisionOpInterface op);
/// Of any other: operands that were decided to be codes are decoded.
std::optional<Fallback> findDecodedOperands(PrecisionOpInterface op);

} // namespace mlir::binade

#endif // BINADE_IR_FALLBACK_H
