//===- Products.h - Formats of the products of layers -----------*- C++ -*-===//

#ifndef BINADE_PRECISION_PRODUCTS_H
#define BINADE_PRECISION_PRODUCTS_H

#include "binade/Precision/Explain.h"
#include <map>

namespace mlir::binade {

/// A layer of the model, and the nodes that compute its products.
struct LayerNodes {
  std::string name;
  std::array<SmallVector<unsigned, 1>, kLayerProducts.size()> products;
};

/// Returns the layers with a weight, in the order of the step. A rule of the
/// policy quantizes operands.
std::vector<LayerNodes> listLayers(const Explanation &explanation,
                                   const OpRoles &roles);

/// Multiply-adds of the step by the format of the wider operand: "4 bits",
/// "8 bits", or the name of the format in which the op computes.
std::map<std::string, int64_t>
countMacsByFormat(const Explanation &explanation);

} // namespace mlir::binade

#endif // BINADE_PRECISION_PRODUCTS_H
