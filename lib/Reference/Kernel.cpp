//===- Kernel.cpp - Kernel launches and tiles -----------------------------===//

#include "Families.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

static FailureOr<func::FuncOp> lookUp(Operation *op, FlatSymbolRefAttr callee) {
  auto function =
      SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, callee);
  if (!function || function.isExternal())
    return op->emitError("function ")
           << callee << " has no body in this module";
  return function;
}

static SmallVector<RankedTensorType> getTensorTypes(TypeRange types) {
  return llvm::map_to_vector(
      types, [](Type type) { return cast<RankedTensorType>(type); });
}

static LogicalResult evaluateCall(func::CallOp op, Evaluation &e) {
  FailureOr<func::FuncOp> function = lookUp(op, op.getCalleeAttr());
  if (failed(function))
    return failure();
  auto results = e.getContext().call(op, *function, e.getOperands(),
                                     getTensorTypes(op.getResultTypes()));
  if (failed(results))
    return failure();
  for (auto [index, result] : llvm::enumerate(*results))
    e.setResult(index, result);
  return success();
}

/// Combines the results of several segments: sums of numbers, disjunctions of
/// bits.
static TensorRef combine(const TensorRef &all, const TensorRef &segment) {
  if (!all)
    return segment;
  Tensor combined = *all;
  if (combined.isFloat())
    combined[0] += (*segment)[0];
  else if (combined.getType().getElementType().isInteger(1))
    combined.getIntegers()[0] |= segment->getIntegers()[0];
  else
    combined.getIntegers()[0] += segment->getIntegers()[0];
  combined.roundElements();
  return std::make_shared<Tensor>(std::move(combined));
}

/// Each multi-tensor kernel of a launch reads its own segment of the operands.
/// Results of rank 0 are combined over all segments.
static LogicalResult evaluateLaunch(LaunchOp op, Evaluation &e) {
  ArrayRef<TensorRef> operands = e.getOperands();
  SmallVector<TensorRef> own, shared;
  for (auto symbol : op.getKernels().getAsRange<FlatSymbolRefAttr>()) {
    FailureOr<func::FuncOp> kernel = lookUp(op, symbol);
    if (failed(kernel))
      return failure();
    unsigned count = kernel->getNumArguments();
    auto schedule = (*kernel)->getAttrOfType<ScheduleAttr>(kKernelAttr);
    bool isMultiTensor =
        schedule && schedule.getValue() == Schedule::MultiTensor;
    SmallVector<RankedTensorType> types =
        getTensorTypes(kernel->getResultTypes());
    // The result types of the tensors, instead of the kernel's vector.
    unsigned next = own.size();
    for (RankedTensorType &type : types)
      if (isMultiTensor && type.getRank() > 0)
        type = e.result(next++).getType();
    auto results =
        e.getContext().call(op, *kernel, operands.take_front(count), types);
    if (failed(results))
      return failure();
    operands = operands.drop_front(count);
    unsigned scalars = 0;
    for (TensorRef &result : *results) {
      if (!isMultiTensor || result->getRank() > 0) {
        own.push_back(std::move(result));
        continue;
      }
      if (scalars == shared.size())
        shared.emplace_back();
      shared[scalars] = combine(shared[scalars], result);
      ++scalars;
    }
  }
  for (auto [index, result] :
       llvm::enumerate(llvm::concat<TensorRef>(own, shared)))
    e.setResult(index, Tensor::reshape(result, e.result(index).getType()));
  return success();
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Calls `copy(from, to)` with the float or the integer elements.
template <typename Copy>
static void forElements(const Tensor &from, Tensor &to, Copy copy) {
  if (to.isFloat())
    copy(from.getFloats(), to.getFloats());
  else
    copy(from.getIntegers(), to.getIntegers());
}

/// Returns the elements of `whole` from `offset` on as a tensor of `type`.
static TensorRef cutPiece(const Tensor &whole, RankedTensorType type,
                          int64_t offset) {
  Tensor piece(type);
  forElements(whole, piece, [&](auto from, auto to) {
    llvm::copy(from.slice(offset, to.size()), to.begin());
  });
  return std::make_shared<Tensor>(std::move(piece));
}

static void joinPiece(const Tensor &piece, Tensor &whole, int64_t offset) {
  forElements(piece, whole, [&](auto from, auto to) {
    llvm::copy(from, to.begin() + offset);
  });
}

/// The sum is rounded after each addition, as it is stored in memory.
static void addPiece(const Tensor &piece, Tensor &sum) {
  for (int64_t i = 0, count = sum.getNumElements(); i < count; ++i)
    sum[i] += piece[i];
  sum.roundElements();
}

/// Evaluates a body of a tile with the pieces that `findOffset` finds in whole
/// operands and results.
static LogicalResult
evaluatePieces(TileOp op, Block &body, Evaluation &e,
               function_ref<int64_t(Type whole, Type piece)> findOffset) {
  int64_t slices = op.getSlices(), joins = op.getJoins();
  SmallVector<TensorRef> arguments(e.getOperands());
  for (int64_t i = 0; i < slices; ++i) {
    auto type = cast<RankedTensorType>(body.getArgument(i).getType());
    arguments[i] = cutPiece(*arguments[i], type,
                            findOffset(op.getOperand(i).getType(), type));
  }
  auto pieces = e.getContext().run(body, arguments);
  if (failed(pieces))
    return failure();
  for (auto [i, piece] : llvm::enumerate(*pieces))
    if (static_cast<int64_t>(i) < joins)
      joinPiece(*piece, e.result(i),
                findOffset(op->getResult(i).getType(),
                           body.getTerminator()->getOperand(i).getType()));
    else
      addPiece(*piece, e.result(i));
  return success();
}

static LogicalResult evaluateTile(TileOp op, Evaluation &e) {
  auto count = [](Type type) {
    return cast<RankedTensorType>(type).getNumElements();
  };
  for (int64_t index = 0; index < static_cast<int64_t>(op.getCount()); ++index)
    if (failed(
            evaluatePieces(op, op.getBody().front(), e, [&](Type, Type piece) {
              return index * count(piece);
            })))
      return failure();
  if (op.getRemainderBody().empty())
    return success();
  return evaluatePieces(
      op, op.getRemainderBody().front(), e,
      [&](Type whole, Type piece) { return count(whole) - count(piece); });
}

void mlir::binade::addKernel(Reference &reference) {
  reference.add<func::CallOp>(evaluateCall);
  reference.add<LaunchOp>(evaluateLaunch);
  reference.add<TileOp>(evaluateTile);
}
