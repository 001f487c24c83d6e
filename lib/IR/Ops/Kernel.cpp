//===- Kernel.cpp - Kernel launches and tiles -----------------------------===//

#include "binade/IR/Batches.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Kernel.cpp.inc"

static bool isScalar(Type type) {
  return cast<RankedTensorType>(type).getRank() == 0;
}

/// Whether a launch may pass `actual` to a kernel's `formal`. A multi-tensor
/// kernel has a vector where its launch has tensors of any shape.
static bool fits(Type actual, Type formal, bool isMultiTensor) {
  if (!isMultiTensor || isScalar(formal))
    return actual == formal;
  return getElementTypeOrSelf(actual) == getElementTypeOrSelf(formal);
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  SmallVector<Type> operands, results, shared;
  bool isMultiTensor = false;
  for (auto symbol : getKernels().getAsRange<FlatSymbolRefAttr>()) {
    auto kernel = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, symbol);
    auto schedule =
        kernel ? kernel->getAttrOfType<ScheduleAttr>(kKernelAttr) : nullptr;
    if (!schedule)
      return emitOpError("launches ")
             << symbol << ", which is not a kernel of this module";
    isMultiTensor = schedule.getValue() == Schedule::MultiTensor;
    bool isBatched = kernel->hasAttr(kBatchedAttr) &&
                     llvm::all_equal(getKernels().getValue());
    if (!isMultiTensor && !isBatched && getKernels().size() != 1)
      return emitOpError("launches several kernels, but ")
             << symbol << " is not a multi-tensor kernel";
    llvm::append_range(operands, kernel.getArgumentTypes());
    shared.clear();
    for (Type type : kernel.getResultTypes())
      (isMultiTensor && isScalar(type) ? shared : results).push_back(type);
  }
  llvm::append_range(results, shared);
  auto agree = [&](TypeRange actual, ArrayRef<Type> formal) {
    return actual.size() == formal.size() &&
           llvm::all_of(llvm::zip(actual, formal), [&](auto pair) {
             return fits(std::get<0>(pair), std::get<1>(pair), isMultiTensor);
           });
  };
  if (agree(getOperandTypes(), operands) && agree(getResultTypes(), results))
    return success();
  return emitOpError("has type (")
         << getOperandTypes() << ") -> (" << getResultTypes()
         << "), its kernels (" << operands << ") -> (" << results << ")";
}

//===----------------------------------------------------------------------===//
// TileOp
//===----------------------------------------------------------------------===//

RankedTensorType TileOp::getPiece(Type type, int64_t count) {
  auto whole = cast<RankedTensorType>(type);
  if (whole.getRank() == 0 || whole.getDimSize(0) % count != 0)
    return {};
  SmallVector<int64_t> shape(whole.getShape());
  shape.front() /= count;
  return whole.clone(shape);
}

/// Checks that the first `pieces` types of `inside` are slices of those of
/// `outside`, and that the others are equal.
static LogicalResult checkPieces(TileOp op, StringRef what, TypeRange outside,
                                 TypeRange inside, int64_t pieces) {
  if (pieces > static_cast<int64_t>(outside.size())) // C1
    return op.emitOpError("slices ")
           << pieces << " " << what << "s, but has " << outside.size();
  if (inside.size() != outside.size())
    return op.emitOpError("has ")
           << outside.size() << " " << what << "s, its body " << inside.size();
  for (auto [index, type] : llvm::enumerate(outside)) {
    bool isCut = static_cast<int64_t>(index) < pieces;
    Type expected = isCut ? Type(TileOp::getPiece(type, op.getCount())) : type;
    if (!expected)
      return op.emitOpError("cannot cut ")
             << what << " " << index << " of type " << type << " into "
             << op.getCount() << " pieces";
    if (expected != inside[index]) // C2, C3
      return op.emitOpError("expects ")
             << what << " " << index << " inside to be " << expected << ", got "
             << inside[index];
  }
  return success();
}

LogicalResult TileOp::verifyRegions() {
  if (failed(checkPieces(*this, "operand", getOperandTypes(),
                         getBody().getArgumentTypes(), getSlices())) ||
      failed(checkPieces(*this, "result", getResultTypes(),
                         getYield()->getOperandTypes(), getJoins())))
    return failure();
  for (Type type : llvm::drop_begin(getResultTypes(), getJoins()))
    if (!getElementTypeOrSelf(type).isF32()) // C4
      return emitOpError("sums only f32 results, got ") << type;
  return success();
}

void YieldOp::build(OpBuilder &builder, OperationState &state) {
  build(builder, state, ValueRange());
}
