//===- Blocks.cpp - Blocks of inputs that share a scale -------------------===//

#include "Blocks.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::NodeProto;

/// Largest magnitudes of blocks are computed by MaxPool, which supports at most
/// three spatial axes after two others.
static constexpr int64_t kMaxRank = 5;

int64_t QuantizedInput::getAxis() const {
  int64_t last = block.size() - 1;
  return last > 0 && block[last] == 1 && block[last - 1] > 1 ? last - 1 : last;
}

static bool getFlag(const NodeProto &node, StringRef name) {
  return llvm::any_of(node.attribute(), [&](const auto &attribute) {
    return attribute.name() == name && attribute.i() != 0;
  });
}

/// Whether the node contracts the second to last axis of the input. A vector
/// has only its last one.
static bool isSummedDown(const NodeProto &node, unsigned input, int64_t rank) {
  if (node.op_type() == "Gemm")
    return input == 0 ? getFlag(node, "transA") : !getFlag(node, "transB");
  return node.op_type() == "MatMul" && input == 1 && rank > 1;
}

/// Returns blocks of `rows` and `columns` along the last two of `rank` axes;
/// null if ONNX cannot express them.
static QuantizedInput getBlocks(QuantizedAttr format, int64_t rank,
                                int64_t rows, int64_t columns) {
  if (rank < 1 || rank > kMaxRank)
    return {};
  SmallVector<int64_t, 2> block(rank, 1);
  block[rank - 1] = columns;
  if (rank > 1)
    block[rank - 2] = rows;
  // The IR may merge batch axes into rows, so that a tile spans several
  // matrices.
  bool isTiled = rows > 1 && columns > 1;
  return isTiled && rank > 2 ? QuantizedInput() : QuantizedInput{format, block};
}

QuantizedInput mlir::binade::convert::getQuantizedInput(const NodeProto &node,
                                                        unsigned input,
                                                        QuantizedAttr format,
                                                        int64_t rank) {
  if (format.getGranularity() == Granularity::PerTensor)
    return {format, {}};
  if (format.getGranularity() != Granularity::PerBlock)
    return {};
  if (isSummedDown(node, input, rank))
    format =
        // The extents of blocks do not depend on `rows`.
        format.getTransposed(/*rows=*/0);
  return getBlocks(format, rank, format.getExtent()[0], format.getExtent()[1]);
}

QuantizedInput
mlir::binade::convert::getQuantizedValue(QuantizedAttr format,
                                         ArrayRef<int64_t> shape) {
  auto rank = static_cast<int64_t>(shape.size());
  ArrayRef<int64_t> extent = format.getExtent();
  switch (format.getGranularity()) {
  case Granularity::PerTensor:
    return {format, {}};
  case Granularity::PerRow: // The length of a row need not be known.
    return {};
  case Granularity::PerGroup:
    // If rows consist of whole groups, groups are blocks of rows.
    if (rank > 0 && rank <= kMaxRank && shape.back() % extent[0] == 0)
      return getBlocks(format, rank, 1, extent[0]);
    return {format, {extent[0]}, /*isFlat=*/true};
  case Granularity::PerBlock:
    return getBlocks(format, rank, extent[0], extent[1]);
  }
  llvm_unreachable("all granularities are listed");
}
