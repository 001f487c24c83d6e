//===- Fallback.h - Deviations of a target from a decision ------*- C++ -*-===//

#ifndef BINADE_IR_FALLBACK_H
#define BINADE_IR_FALLBACK_H

#include "binade/Container/Fallback.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include <optional>

namespace mlir::binade {

class PrecisionAttr;

/// On a library call, after the kernels phase: the nonempty texts of a
/// `Fallback` as a dictionary.
inline constexpr StringLiteral kFallbackAttr = "binade.fallback";

using ::binade::Fallback;

/// Returns the fallback of an op for which no library call takes quantized
/// operands, so that they are dequantized before; none if the decision does not
/// quantize operands.
std::optional<Fallback> findDequantized(Operation *op, PrecisionAttr decision);

/// Attaches `fallback` to a library call.
void setFallback(Operation *op, const Fallback &fallback);
/// Returns the fallback that is attached to `op`, if any.
std::optional<Fallback> getFallback(Operation *op);
/// Returns the fallback that `attribute` describes.
Fallback readFallback(DictionaryAttr attribute);

} // namespace mlir::binade

#endif // BINADE_IR_FALLBACK_H
