//===- Shards.cpp - Parameters that are parts of larger ones --------------===//

#include "binade/IR/Shards.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace mlir::binade;

static Attribute getAttribute(Value parameter, StringRef name) {
  auto argument = dyn_cast<BlockArgument>(parameter);
  auto function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
               : func::FuncOp();
  return function ? function.getArgAttr(argument.getArgNumber(), name)
                  : Attribute();
}

static DenseI64ArrayAttr getShard(Value parameter) {
  return dyn_cast_if_present<DenseI64ArrayAttr>(
      getAttribute(parameter, kShardAttr));
}

/// Returns the number of elements of a row.
static int64_t getRowLength(Value parameter) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(parameter.getType()).getShape();
  return shape.empty() ? 1 : ShapedType::getNumElements(shape.drop_front());
}

bool mlir::binade::isShard(Attribute attribute, Type type) {
  auto numbers = dyn_cast<DenseI64ArrayAttr>(attribute);
  auto tensor = dyn_cast<RankedTensorType>(type);
  return numbers && numbers.size() == 2 && tensor && tensor.getRank() > 0 &&
         numbers[0] >= 0 && numbers[1] >= tensor.getDimSize(0) &&
         numbers[0] <= numbers[1] - tensor.getDimSize(0);
}

int64_t mlir::binade::countWholeElements(Value parameter) {
  if (DenseI64ArrayAttr shard = getShard(parameter))
    return shard[1] * getRowLength(parameter);
  return cast<RankedTensorType>(parameter.getType()).getNumElements();
}

bool mlir::binade::isComputedByRows(Value parameter) {
  return getShard(parameter) || getAttribute(parameter, kRowGroupsAttr);
}

std::optional<int64_t> mlir::binade::getWholeRows(Value parameter) {
  if (DenseI64ArrayAttr shard = getShard(parameter))
    return shard[1];
  return std::nullopt;
}

int64_t mlir::binade::getFirstElement(Value parameter) {
  DenseI64ArrayAttr shard = getShard(parameter);
  return shard ? shard[0] * getRowLength(parameter) : 0;
}

QuantizedAttr mlir::binade::fitGroupsToRows(QuantizedAttr format,
                                            Value parameter) {
  bool isPart = bool(getShard(parameter));
  if (!isComputedByRows(parameter) ||
      format.getGranularity() != Granularity::PerGroup)
    return format;
  int64_t length = std::max<int64_t>(getRowLength(parameter), 1);
  int64_t divisor = int64_t(1) << llvm::countr_zero(uint64_t(length));
  int64_t size = std::min(format.getExtent().front(), divisor);
  if (size >= kMinStateGroup)
    return format.withGroups(Granularity::PerGroup, {size});
  return isPart ? QuantizedAttr() : format;
}
