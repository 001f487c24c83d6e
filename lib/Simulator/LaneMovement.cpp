//===- LaneMovement.cpp - Ops that only move lanes ------------------------===//

#include "LaneMovement.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

uint32_t mlir::binade::countLanes(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

std::optional<SmallVector<LaneSource>>
mlir::binade::findLaneSources(Operation *op) {
  SmallVector<LaneSource> lanes;
  auto lane = [&](unsigned operand, int64_t index) {
    lanes.push_back({operand, static_cast<uint32_t>(index)});
  };
  auto countOf = [&](unsigned operand) {
    return countLanes(op->getOperand(operand).getType());
  };
  uint32_t count = countLanes(op->getResult(0).getType());
  if (isa<vector::BroadcastOp>(op)) {
    uint32_t from = countOf(0);
    for (uint32_t i = 0; i < count; ++i)
      lane(0, i % from);
  } else if (isa<vector::ShapeCastOp>(op)) {
    for (uint32_t i = 0; i < count; ++i)
      lane(0, i);
  } else if (auto extract = dyn_cast<vector::ExtractOp>(op)) {
    if (!extract.getDynamicPosition().empty())
      return std::nullopt;
    // The position may leave the last axes whole.
    int64_t first = 0, rest = countOf(0);
    for (auto [at, size] : llvm::zip(extract.getStaticPosition(),
                                     extract.getSourceVectorType().getShape()))
      first += at * (rest /= size);
    for (uint32_t i = 0; i < count; ++i)
      lane(0, first + i);
  } else if (auto insert = dyn_cast<vector::InsertOp>(op)) {
    if (insert.getDestVectorType().getRank() != 1 ||
        !insert.getDynamicPosition().empty())
      return std::nullopt;
    for (uint32_t i = 0; i < count; ++i)
      i == insert.getStaticPosition().front() ? lane(0, 0) : lane(1, i);
  } else if (auto slice = dyn_cast<vector::ExtractStridedSliceOp>(op)) {
    // Only slices of the first axis are supported; the other axes are whole.
    if (slice.getOffsets().size() != 1)
      return std::nullopt;
    VectorType from = slice.getSourceVectorType();
    int64_t first = cast<IntegerAttr>(slice.getOffsets()[0]).getInt() *
                    (from.getNumElements() / from.getDimSize(0));
    for (uint32_t i = 0; i < count; ++i)
      lane(0, first + i);
  } else if (auto slice = dyn_cast<vector::InsertStridedSliceOp>(op)) {
    int64_t first = cast<IntegerAttr>(slice.getOffsets()[0]).getInt();
    for (int64_t i = 0, size = countOf(0); i < count; ++i)
      i >= first &&i < first + size ? lane(0, i - first) : lane(1, i);
  } else if (isa<vector::InterleaveOp>(op)) {
    for (uint32_t i = 0; i < count; ++i)
      lane(i % 2, i / 2);
  } else if (isa<vector::FromElementsOp>(op)) {
    for (uint32_t i = 0; i < count; ++i)
      lane(i, 0);
  } else if (auto shuffle = dyn_cast<vector::ShuffleOp>(op)) {
    int64_t first = countOf(0);
    for (int64_t index : shuffle.getMask())
      index < first ? lane(0, index) : lane(1, index - first);
  } else {
    return std::nullopt;
  }
  return lanes;
}
