//===- Embedding.cpp - Lookups of table rows ------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Subgradient.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Embedding.cpp.inc"

Schedule GatherOp::getSchedule() { return Schedule::Gather; }
Schedule GatherGradOp::getSchedule() { return Schedule::Scatter; }
Schedule CheckIndexOp::getSchedule() { return Schedule::Elementwise; }

std::optional<TensorRole> GatherOp::getOperandRole(unsigned index) {
  if (index == 0)
    return TensorRole::Embedding;
  return std::nullopt;
}

static std::optional<IndexRange> getRowIndices(Value table) {
  return IndexRange{0, cast<RankedTensorType>(table.getType()).getDimSize(0),
                    std::nullopt};
}

std::optional<IndexRange> GatherOp::getIndexRange(unsigned index) {
  return index == 1 ? getRowIndices(getTable()) : std::nullopt;
}

std::optional<IndexRange> GatherGradOp::getIndexRange(unsigned index) {
  return index == 1 ? getRowIndices(getDtable()) : std::nullopt;
}

std::optional<IndexRange> CheckIndexOp::getIndexRange(unsigned) {
  std::optional<uint64_t> ignored = getIgnored();
  return IndexRange{static_cast<int64_t>(getLow()),
                    static_cast<int64_t>(getHigh()), ignored};
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> location,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto table = cast<RankedTensorType>(adaptor.getTable().getType());
  if (table.getRank() < 1) // C1
    return emitOptionalError(location, "expected a table of rows, got ", table);
  auto indices = cast<RankedTensorType>(adaptor.getIndices().getType());
  SmallVector<int64_t> shape(indices.getShape());
  llvm::append_range(shape, table.getShape().drop_front());
  types.push_back(table.clone(shape));
  return success();
}

bool GatherOp::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
  return l == r; // Elements are copied.
}

/// Sets `dy` to 0 for the rows with index `padding`, which counts from the end
/// if it is negative, like indices.
static Value dropPadding(ImplicitLocOpBuilder &b, GatherOp op, Value dy,
                         int64_t padding) {
  Value indices = op.getIndices();
  int64_t rows = cast<RankedTensorType>(op.getTable().getType()).getDimSize(0);
  padding = padding < 0 ? padding + rows : padding;
  auto is = [&](int64_t index) -> Value {
    return CompareOp::create(
        b, indices,
        buildSplat(b, indices.getType(), static_cast<double>(index)),
        Comparison::Equal);
  };
  Value isPadding = OrOp::create(b, is(padding), is(padding - rows));
  auto type = cast<RankedTensorType>(dy.getType());
  auto axes = llvm::to_vector(llvm::seq<int64_t>(
      0, cast<RankedTensorType>(indices.getType()).getRank()));
  isPadding = buildBroadcast(b, isPadding, axes, type.getShape());
  return SelectOp::create(b, isPadding, buildSplat(b, type, 0.0), dy);
}

SmallVector<Value> GatherOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                          ArrayRef<Value> cotangents) {
  Value dy = cotangents.front();
  if (auto padding = (*this)->getAttrOfType<IntegerAttr>(kPaddingIndexAttr))
    dy = dropPadding(b, *this, dy, padding.getInt());
  return {GatherGradOp::create(b, getTable().getType(), dy, getIndices()),
          Value()};
}

SmallVector<Value> GatherGradOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                              ArrayRef<Value> cotangents) {
  return {
      GatherOp::create(b, cotangents.front(), getIndices(), PrecisionAttr()),
      Value()};
}

LogicalResult GatherGradOp::verify() {
  auto gradient = cast<RankedTensorType>(getGradient().getType());
  auto indices = cast<RankedTensorType>(getIndices().getType());
  auto table = cast<RankedTensorType>(getDtable().getType());
  SmallVector<int64_t> shape(indices.getShape());
  if (table.getRank() > 0)
    llvm::append_range(shape, table.getShape().drop_front());
  if (table.getRank() < 1 || gradient.getShape() != ArrayRef(shape))
    return emitOpError("expects a gradient with the shape of the indices and "
                       "of one row, got ")
           << gradient << " for indices " << indices << " and table " << table;
  return success();
}

FailureOr<SmallVector<Value>>
GatherOp::buildWithoutElements(ImplicitLocOpBuilder &) {
  return emitError("has no row to take: the table is ")
         << getTable().getType() << ", its indices are "
         << getIndices().getType();
}
