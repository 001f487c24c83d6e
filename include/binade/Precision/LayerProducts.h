//===- LayerProducts.h - The three products of a layer ----------*- C++ -*-===//

#ifndef BINADE_PRECISION_LAYERPRODUCTS_H
#define BINADE_PRECISION_LAYERPRODUCTS_H

#include "binade/IR/Interface.h"
#include "binade/Precision/OpRoles.h"

namespace mlir::binade {

/// What a contraction computes for a layer: its output, the gradient of its
/// input, or the gradient of its weight.
enum class LayerProduct { Forward, InputGradient, WeightGradient };

/// The names of the products in policies and messages.
inline constexpr std::array<StringLiteral, 3> kLayerProducts = {
    "fprop", "dgrad", "wgrad"};

/// What an operand of a contraction is.
enum class OperandKind { Activation, Weight, Gradient };

/// Values that backward ops write are gradients, arguments other than the batch
/// are weights, and all others are activations.
OperandKind findOperandKind(OpOperand &operand);

/// Returns the product that `op`, a contraction, computes. A backward
/// contraction without a weight, such as those of attention, computes the
/// gradient of an input.
LayerProduct findLayerProduct(PrecisionOpInterface op, const OpRoles &roles);

/// A transform of both operands of a product before they are quantized, and its
/// place in a policy.
struct ProductTransform {
  TransformAttr transform;
  LocationAttr location;

  explicit operator bool() const { return bool(transform); }
  bool operator==(const ProductTransform &other) const {
    return transform == other.transform;
  }
};

/// A model of the accumulator that adds products, and its place in a policy.
struct ProductAccumulation {
  AccumulationAttr accumulation;
  LocationAttr location;

  explicit operator bool() const { return bool(accumulation); }
  bool operator==(const ProductAccumulation &other) const {
    return accumulation == other.accumulation;
  }
};

/// The formats to which operands of contractions are quantized, by what the
/// operands are; null for those that are not quantized.
struct OperandFormats {
  QuantizedAttr activation, weight, gradient;
  /// Only for a product with formats of its own: `fprop`, `dgrad` or `wgrad`.
  ProductTransform transform;

  QuantizedAttr get(OperandKind kind) const {
    return kind == OperandKind::Activation ? activation
           : kind == OperandKind::Weight   ? weight
                                           : gradient;
  }
  /// Whether the scales of an operand are unbiased only after a random
  /// rotation, so that it is not quantized without one.
  bool needsTransform() const {
    return llvm::any_of(
        std::array{activation, weight, gradient},
        [](QuantizedAttr format) { return format && format.correctsScales(); });
  }
  explicit operator bool() const { return activation || weight || gradient; }
  bool operator==(const OperandFormats &) const = default;
};

/// The formats of the operands of each product.
struct ProductFormats {
  /// Of products without an entry in `own`.
  OperandFormats common;
  std::array<std::optional<OperandFormats>, kLayerProducts.size()> own;

  const OperandFormats &get(LayerProduct product) const {
    const auto &found = own[static_cast<size_t>(product)];
    return found ? *found : common;
  }
  explicit operator bool() const {
    return bool(common) || llvm::any_of(own, [](const auto &formats) {
             return formats && *formats;
           });
  }
  bool operator==(const ProductFormats &) const = default;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_LAYERPRODUCTS_H
