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

QuantizedInput mlir::binade::convert::getQuantizedInput(const NodeProto &node,
                                                        unsigned input,
                                                        QuantizedAttr format,
                                                        int64_t rank) {
  if (format.getGranularity() == Granularity::PerTensor)
    return {format, {}};
  if (format.getGranularity() != Granularity::PerBlock || rank < 1 ||
      rank > kMaxRank)
    return {};
  if (isSummedDown(node, input, rank))
    format = format.getTurned(/*rows=*/0); // Of a block both extents are known.
  SmallVector<int64_t, 2> block(rank, 1);
  block[rank - 1] = format.getExtent()[1];
  if (rank > 1)
    block[rank - 2] = format.getExtent()[0];
  QuantizedInput result{format, block};
  // Rows of a batch may be rows of one matrix to the IR.
  bool isTiled = format.getExtent()[0] > 1 && format.getExtent()[1] > 1;
  return isTiled && rank > 2 ? QuantizedInput() : result;
}
