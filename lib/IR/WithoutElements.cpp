//===- WithoutElements.cpp - Tensors with an axis of length 0 -------------===//
// What ops give that read such tensors: the neutral element of what they do.
//===----------------------------------------------------------------------===//

#include "binade/IR/WithoutElements.h"
#include "binade/IR/Build.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::binade;

using Values = FailureOr<SmallVector<Value>>;

bool mlir::binade::hasNoElements(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && llvm::is_contained(tensor.getShape(), 0);
}

SmallVector<Value> mlir::binade::buildZeros(ImplicitLocOpBuilder &b,
                                            TypeRange types) {
  return llvm::map_to_vector(
      types, [&](Type type) { return buildSplat(b, type, 0.0); });
}

/// The operands with elements.
static SmallVector<Value> dropEmpty(ValueRange operands) {
  SmallVector<Value> kept(operands);
  llvm::erase_if(kept, [](Value x) { return hasNoElements(x.getType()); });
  return kept;
}

/// `bias`, a number for each entry of `axis`, or zeros.
static Values buildBias(ImplicitLocOpBuilder &b, Value bias,
                        RankedTensorType type, int64_t axis) {
  if (!bias)
    return buildZeros(b, type);
  Value rounded = buildCast(b, bias, type.getElementType());
  return SmallVector<Value>{
      buildBroadcast(b, rounded, {axis}, type.getShape())};
}

static Values build(ImplicitLocOpBuilder &b, MatmulOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  return buildBias(b, op.getBias(), type, type.getRank() - 1);
}

static Values build(ImplicitLocOpBuilder &b, ConvOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  return buildBias(b, op.getBias(), type,
                   op.getChannelsLast() ? type.getRank() - 1 : 1);
}

static Values build(ImplicitLocOpBuilder &b, ReduceMaxOp op) {
  return SmallVector<Value>{buildSplat(b, op.getType(), -INFINITY)};
}

/// Sums over no element, whatever its statistics are.
static Values build(ImplicitLocOpBuilder &b, BatchNormParamGradOp op) {
  return buildZeros(b, op.getResultTypes());
}

static Values build(ImplicitLocOpBuilder &b, ConcatOp op) {
  SmallVector<Value> inputs = dropEmpty(op.getInputs());
  if (inputs.size() == 1)
    return inputs;
  return SmallVector<Value>{
      ConcatOp::create(b, op.getType(), inputs, op.getAxis())};
}

static Values build(ImplicitLocOpBuilder &, GatherOp op) {
  return op.emitError("has no row to take: the table is ")
         << op.getTable().getType() << ", its indices are "
         << op.getIndices().getType();
}

/// No magnitude is the smallest: infinity. All else is 0.
static Values build(ImplicitLocOpBuilder &b, StatisticsOp op) {
  SmallVector<Value> values = buildZeros(b, op.getResultTypes());
  for (auto [member, value] : llvm::zip(op.getMembers(), values))
    if (member == Statistic::Smallest)
      value = buildSplat(b, value.getType(), INFINITY);
  return values;
}

static Values build(ImplicitLocOpBuilder &b, GradientStatisticsOp op) {
  SmallVector<Value> gradients = dropEmpty(op.getGradients());
  if (gradients.empty())
    return buildZeros(b, op.getResultTypes());
  auto rest = GradientStatisticsOp::create(b, op.getResultTypes(), gradients);
  return SmallVector<Value>(rest.getResults());
}

/// A parameter without elements is not updated, nor are its states.
static Values build(ImplicitLocOpBuilder &, OptimizerUpdateOp op) {
  SmallVector<Value> kept = {op.getParameter()};
  llvm::append_range(kept, op.getStates());
  return kept;
}

/// What shares a scale and has no elements has that of zeros: of a tensor that
/// has one where this has none.
static Values build(ImplicitLocOpBuilder &b, QuantizeOp op) {
  auto type = cast<RankedTensorType>(op.getX().getType());
  SmallVector<int64_t> shape(type.getShape());
  llvm::replace(shape, int64_t(0), int64_t(1));
  Value zeros = buildSplat(b, type.clone(shape), 0.0);
  SmallVector<RankedTensorType> parts = op.getFormat().getParts(shape);
  auto filled =
      QuantizeOp::create(b, SmallVector<Type>(parts.begin(), parts.end()),
                         zeros, op.getAmax(), op.getRng(), op.getFormatAttr(),
                         op.getSaturateAttr(), op.getStreamAttr());
  SmallVector<Value> values = buildZeros(b, op.getResultTypes());
  for (auto [value, part] : llvm::zip_equal(values, filled.getResults()))
    if (!hasNoElements(value.getType()))
      value = part;
  return values;
}

Values mlir::binade::buildWithoutElements(ImplicitLocOpBuilder &b,
                                          KernelOpInterface op) {
  return TypeSwitch<Operation *, Values>(op)
      .Case<MatmulOp, ConvOp, BatchNormParamGradOp, ReduceMaxOp, ConcatOp,
            GatherOp, StatisticsOp, GradientStatisticsOp, OptimizerUpdateOp,
            QuantizeOp>([&](auto known) { return build(b, known); })
      .Default([&](Operation *) {
        Values parts = op.decompose(b);
        return succeeded(parts) ? parts : buildZeros(b, op->getResultTypes());
      });
}
