//===- Fallback.h - how a target deviates from a decision -------*- C++ -*-===//

#ifndef BINADE_IR_FALLBACK_H
#define BINADE_IR_FALLBACK_H

#include "binade/Container/Fallback.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include <optional>

namespace mlir::binade {

class PrecisionAttr;

/// On a library call from the kernels phase on: a dictionary of the texts of a
/// `Fallback`, without those that are empty.
inline constexpr StringLiteral kFallbackAttr = "binade.fallback";

using ::binade::Fallback;

/// The fallback of an op without a library call for quantized operands: they
/// are dequantized before. Nothing where the decision does not quantize them.
std::optional<Fallback> findDequantized(Operation *op, PrecisionAttr decision);

/// Attaches `fallback` to a library call.
void setFallback(Operation *op, const Fallback &fallback);
/// The fallback that is attached to `op`, if any.
std::optional<Fallback> getFallback(Operation *op);
/// The fallback that `attribute` describes.
Fallback readFallback(DictionaryAttr attribute);

} // namespace mlir::binade

#endif // BINADE_IR_FALLBACK_H
