//===- Products.cpp - Formats of the products of layers -------------------===//

#include "binade/Precision/Products.h"
#include "binade/IR/Names.h"
#include "binade/IR/QuantizedOperands.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the bits of an element of `format`.
static unsigned countBits(QuantizedAttr format) {
  if (FloatType element = format.getFormat())
    return element.getWidth();
  if (format.getCompanded())
    return 8;
  return llvm::Log2_64_Ceil(format.getBook().getValues().size());
}

/// Returns the bits of the wider operand of a contraction with `decision`; none
/// if it does not multiply quantized operands.
static std::optional<unsigned> countOperandBits(PrecisionAttr decision) {
  constexpr unsigned kFactors = 2;
  unsigned count = 0, bits = 0;
  if (ArrayAttr operands = decision.getOperands())
    for (Attribute operand : operands)
      if (auto format = dyn_cast<QuantizedAttr>(operand)) {
        ++count;
        bits = std::max(bits, countBits(format));
      }
  return count == kFactors ? std::optional(bits) : std::nullopt;
}

std::vector<LayerNodes> mlir::binade::listLayers(const Explanation &explanation,
                                                 const OpRoles &roles) {
  llvm::MapVector<StringRef, LayerNodes> layers;
  ArrayRef<PrecisionNode> nodes = explanation.getGraph().getNodes();
  for (auto [index, node] : llvm::enumerate(nodes)) {
    PrecisionOpInterface op = node.op;
    if (!op.accumulates() || !roles.has(op, TensorRole::Weight))
      continue;
    StringRef name = getNodeName(op);
    LayerNodes &layer = layers[name];
    layer.name = name.str();
    layer.products[static_cast<size_t>(node.product)].push_back(index);
  }
  std::vector<LayerNodes> list;
  for (auto &[name, layer] : layers)
    list.push_back(std::move(layer));
  return list;
}

std::map<std::string, int64_t>
mlir::binade::countMacsByFormat(const Explanation &explanation) {
  std::map<std::string, int64_t> counts;
  ArrayRef<PrecisionNode> nodes = explanation.getGraph().getNodes();
  for (auto [index, node] : llvm::enumerate(nodes)) {
    PrecisionOpInterface op = node.op;
    std::optional<int64_t> macs = op.countMacs();
    if (!macs)
      continue;
    PrecisionAttr decision = explanation.getDecision(index);
    std::optional<unsigned> bits = countOperandBits(decision);
    counts[bits ? std::to_string(*bits) + " bits"
                : llvm::to_string(getComputed(decision))] += *macs;
  }
  return counts;
}
