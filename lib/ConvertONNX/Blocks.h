//===- Blocks.h - Blocks of inputs that share a scale -----------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_BLOCKS_H
#define BINADE_LIB_CONVERTONNX_BLOCKS_H

#include "binade/IR/Binade.h"

namespace onnx {
class NodeProto;
} // namespace onnx

namespace mlir::binade::convert {

/// The format to which an input of a node is quantized, with blocks along the
/// input's own axes. A null format means that it is not quantized.
struct QuantizedInput {
  QuantizedAttr format;
  /// The extent of a block along each axis; empty if one scale is used for the
  /// tensor.
  SmallVector<int64_t, 2> block;
  /// Whether blocks are those of the flattened tensor.
  bool isFlat = false;

  explicit operator bool() const { return static_cast<bool>(format); }
  bool operator==(const QuantizedInput &other) const {
    return format == other.format && block == other.block &&
           isFlat == other.isFlat;
  }
  bool operator<(const QuantizedInput &other) const {
    auto key = [](const QuantizedInput &input) {
      return std::tuple(input.format.getAsOpaquePointer(),
                        ArrayRef(input.block), input.isFlat);
    };
    return key(*this) < key(other);
  }

  /// Whether blocks extend along both axes of a matrix. ONNX has blocks along
  /// one axis only, so the scales of such tiles are repeated for each row.
  bool isTile() const {
    return block.size() == 2 && block[0] > 1 && block[1] > 1;
  }
  /// Whether a block spans several rows.
  bool hasBands() const {
    return block.size() > 1 && block[block.size() - 2] > 1;
  }
  /// Returns the axis that is divided into blocks.
  int64_t getAxis() const;
};

/// Returns the blocks of `format` for input `input` of `node`, of rank `rank`,
/// along the axis that the node contracts; null if ONNX cannot express them.
QuantizedInput getQuantizedInput(const ::onnx::NodeProto &node, unsigned input,
                                 QuantizedAttr format, int64_t rank);

/// Returns the blocks of `format` for a value of `shape`; null if ONNX cannot
/// express them.
QuantizedInput getQuantizedValue(QuantizedAttr format, ArrayRef<int64_t> shape);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_BLOCKS_H
