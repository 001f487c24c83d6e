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

TileShape TileShape::divide(int64_t units, int64_t count, int64_t multiple) {
  int64_t size = llvm::alignTo(llvm::divideCeil(units, count), multiple);
  if (size >= units)
    return {};
  int64_t remainder = units % size;
  return {units / size, remainder == 0 ? 1 : size, remainder};
}

RankedTensorType TileShape::getPiece(Type type, bool isRemainder) const {
  auto whole = cast<RankedTensorType>(type);
  if (whole.getRank() == 0 || whole.getDimSize(0) % countUnits() != 0)
    return {};
  SmallVector<int64_t> shape(whole.getShape());
  shape.front() =
      shape.front() / countUnits() * (isRemainder ? remainder : size);
  return whole.clone(shape);
}

SmallVector<Block *> TileOp::getBodies() {
  SmallVector<Block *> bodies;
  for (Region &region : getOperation()->getRegions())
    if (!region.empty())
      bodies.push_back(&region.front());
  return bodies;
}

TileOp TileOp::cloneWithoutBodies(OpBuilder &b, TypeRange types,
                                  int64_t joins) {
  return TileOp::create(b, getLoc(), types, getOperands(), getCount(),
                        getSize(), getRemainder(), getSlices(), joins);
}

void TileOp::takeBodies(TileOp other) {
  getBody().takeBody(other.getBody());
  getRemainderBody().takeBody(other.getRemainderBody());
}

/// Checks that the first `pieces` types of `inside` are slices of those of
/// `outside`, and that the others are equal.
static LogicalResult checkPieces(TileOp op, StringRef what, TypeRange outside,
                                 TypeRange inside, int64_t pieces,
                                 bool isRemainder) {
  if (pieces > static_cast<int64_t>(outside.size())) // C1
    return op.emitOpError("slices ")
           << pieces << " " << what << "s, but has " << outside.size();
  if (inside.size() != outside.size())
    return op.emitOpError("has ")
           << outside.size() << " " << what << "s, its body " << inside.size();
  for (auto [index, type] : llvm::enumerate(outside)) {
    bool isCut = static_cast<int64_t>(index) < pieces;
    TileShape shape = op.getShape();
    Type expected = isCut ? Type(shape.getPiece(type, isRemainder)) : type;
    if (!expected) {
      InFlightDiagnostic error = op.emitOpError("cannot cut ");
      error << what << " " << index << " of type " << type << " into "
            << shape.count << " pieces";
      if (shape.remainder > 0)
        error << " of " << shape.size << "/" << shape.countUnits()
              << " and a last one of " << shape.remainder << "/"
              << shape.countUnits();
      return error;
    }
    if (expected != inside[index]) // C2, C3
      return op.emitOpError("expects ")
             << what << " " << index << " inside to be " << expected << ", got "
             << inside[index];
  }
  return success();
}

LogicalResult TileOp::verifyRegions() {
  TileShape shape = getShape();
  if (shape.remainder > 0 && shape.remainder >= shape.size)
    return emitOpError("has a remainder of ")
           << shape.remainder << ", not less than a piece of "
           << shape.size; // C5
  if ((shape.remainder > 0) == getRemainderBody().empty())
    return emitOpError("has a remainder of ")
           << shape.remainder << ", but " << (shape.remainder > 0 ? "no" : "a")
           << " region for it"; // C5
  for (Block *body : getBodies()) {
    bool isRemainder = body != &getBody().front();
    if (failed(checkPieces(*this, "operand", getOperandTypes(),
                           body->getArgumentTypes(), getSlices(),
                           isRemainder)) ||
        failed(checkPieces(*this, "result", getResultTypes(),
                           body->getTerminator()->getOperandTypes(), getJoins(),
                           isRemainder)))
      return failure();
  }
  for (Type type : llvm::drop_begin(getResultTypes(), getJoins()))
    if (!getElementTypeOrSelf(type).isF32()) // C4
      return emitOpError("sums only f32 results, got ") << type;
  return success();
}

void YieldOp::build(OpBuilder &builder, OperationState &state) {
  build(builder, state, ValueRange());
}
