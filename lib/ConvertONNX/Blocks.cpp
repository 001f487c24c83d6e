//===- Blocks.cpp - Which elements of an input share a scale --------------===//

#include "Blocks.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::NodeProto;

/// MaxPool, which finds the largest magnitudes of blocks, has at most three
/// axes besides two.
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

/// Whether products with the input are summed along its last axis but one. A
/// vector has no other than its last.
static bool isSummedDown(const NodeProto &node, unsigned input, int64_t rank) {
  if (node.op_type() == "Gemm")
    return input == 0 ? getFlag(node, "transA") : !getFlag(node, "transB");
  return node.op_type() == "MatMul" && input == 1 && rank > 1;
}

/// Blocks of `rows` and `columns` of the last two of `rank` axes.
static QuantizedInput getBlocks(QuantizedAttr format, int64_t rank,
                                int64_t rows, int64_t columns) {
  if (rank < 1 || rank > kMaxRank)
    return {};
  SmallVector<int64_t, 2> block(rank, 1);
  block[rank - 1] = columns;
  if (rank > 1)
    block[rank - 2] = rows;
  // Rows of a batch may be rows of one matrix to the IR.
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
        format.getTransposed(/*rows=*/0); // Of a block both extents are known.
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
  case Granularity::PerRow: // Of a length that the file need not say.
    return {};
  case Granularity::PerGroup:
    // Of rows of whole groups these are blocks.
    if (rank > 0 && rank <= kMaxRank && shape.back() % extent[0] == 0)
      return getBlocks(format, rank, 1, extent[0]);
    return {format, {extent[0]}, /*isFlat=*/true};
  case Granularity::PerBlock:
    return getBlocks(format, rank, extent[0], extent[1]);
  }
  llvm_unreachable("all granularities are listed");
}
