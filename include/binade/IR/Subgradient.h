//===- Subgradient.h - Subgradients of ops with kinks -----------*- C++ -*-===//
//
// Where a function has no derivative, its adjoint uses PyTorch's subgradient.
// Some PyTorch functions with different choices are the same op here;
// attributes of the op distinguish them. docs/Gradients.md has the table.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_SUBGRADIENT_H
#define BINADE_IR_SUBGRADIENT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mlir::binade {

/// On `max`, `min` and `reduce_max`: which of several equal elements gets the
/// gradient. Without the attribute they share it, except that a constant
/// operand is a bound and gets none.
inline constexpr StringLiteral kTiesAttr = "binade.ties";

enum class Ties {
  Share, ///< Equal shares, as in `torch.maximum` and `torch.amax`.
  First, ///< All for the first, as in pooling, `torch.clamp`, `torch.max(x,
         ///< 0)`.
  Flat,  ///< None at a bound, as in `torch.nn.functional.hardtanh`.
};

/// Parses "share", "first" or "flat"; returns none for other words.
std::optional<Ties> parseTies(StringRef word);
/// Returns the value of the attribute, if `op` has it.
std::optional<Ties> getTies(Operation *op);
/// Sets the attribute of the op that defines `value`.
void setTies(Value value, Ties ties);

/// On `reshape`: no gradient flows back, as with `torch.Tensor.detach`.
/// Autodiff removes the attribute.
inline constexpr StringLiteral kDetachedAttr = "binade.detached";

/// On `gather`: the row that gets no gradient from this lookup, as with the
/// `padding_idx` of `torch.nn.Embedding`.
inline constexpr StringLiteral kPaddingIndexAttr = "binade.padding_idx";

} // namespace mlir::binade

#endif // BINADE_IR_SUBGRADIENT_H
