//===- Blocks.h - Which elements of an input share a scale ------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_BLOCKS_H
#define BINADE_LIB_CONVERTONNX_BLOCKS_H

#include "binade/IR/Binade.h"

namespace onnx {
class NodeProto;
} // namespace onnx

namespace mlir::binade::convert {

/// What an input of a node is quantized to: `format`, along the input's own
/// axes. Null for others.
struct QuantizedInput {
  QuantizedAttr format;
  /// The extent of what shares a scale, by axis; empty where all does.
  SmallVector<int64_t, 2> block;
  /// Whether blocks are those of all elements in a row.
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

  /// Whether there are several scales along both of the last two axes. ONNX has
  /// blocks along one axis: a scale of these stands once for each row.
  bool isTile() const {
    return block.size() == 2 && block[0] > 1 && block[1] > 1;
  }
  /// Whether what shares a scale is in several rows.
  bool hasBands() const {
    return block.size() > 1 && block[block.size() - 2] > 1;
  }
  /// The axis along which blocks follow each other.
  int64_t getAxis() const;
};

/// `format` for input `input` of `node`, of `rank` axes, as products with it
/// are summed; null where ONNX has no blocks of that shape.
QuantizedInput getQuantizedInput(const ::onnx::NodeProto &node, unsigned input,
                                 QuantizedAttr format, int64_t rank);

/// `format` of a value of `shape`; null where ONNX has no blocks of that shape.
QuantizedInput getQuantizedValue(QuantizedAttr format, ArrayRef<int64_t> shape);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_BLOCKS_H
