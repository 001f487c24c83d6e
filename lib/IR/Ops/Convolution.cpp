//===- Convolution.cpp - Convolutions and their gradients -----------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

/// Puts the channels last in the first `activations` operands, and in the
/// result if it is an activation, too; keeps the layout if they are last
/// already.
static Layouts chooseChannelsLast(Operation *op, bool isLast,
                                  unsigned activations, bool givesActivation) {
  Layouts chosen(op);
  if (isLast)
    return chosen;
  int64_t rank = cast<RankedTensorType>(op->getOperandTypes()[0]).getRank();
  Layout last = {0};
  llvm::append_range(last, llvm::seq<int64_t>(2, rank));
  last.push_back(1);
  for (unsigned index = 0; index < activations; ++index)
    chosen.operands[index] = last;
  if (givesActivation)
    chosen.results.front() = last;
  return chosen;
}

/// Each output is a sum over a filter, whichever of the three tensors is the
/// result.
static int64_t countConvolutionMacs(Operation *op) {
  Value output = isa<ConvOp>(op) ? op->getResult(0) : op->getOperand(0);
  Value filters =
      isa<ConvWeightGradOp>(op) ? op->getResult(0) : op->getOperand(1);
  auto type = cast<RankedTensorType>(filters.getType());
  return cast<RankedTensorType>(output.getType()).getNumElements() *
         (type.getNumElements() / std::max<int64_t>(type.getDimSize(0), 1));
}

/// Returns the fallback of TF32 convolutions on other targets than CPUs: plan
/// records have no compute format for convolutions, so that TF32 operands,
/// which are stored as f32, are convolved in f32.
static std::optional<Fallback>
findConvolutionFallback(PrecisionOpInterface op) {
  PrecisionAttr decision = op.getPrecisionAttr();
  if (!decision || !isa<FloatTF32Type>(decision.getCompute()))
    return findDequantized(op, decision);
  TargetAttr target = getTarget(op);
  if (!target)
    return std::nullopt;
  return Fallback{"tf32", "f32",
                  target.getName().getValue().str() +
                      " computes TF32 convolutions in f32",
                  ""};
}

#define GET_OP_CLASSES
#include "binade/IR/Ops/Convolution.cpp.inc"

/// Limits geometry, so that products of it and of sizes fit into 64 bits.
static constexpr int64_t kLargestGeometry = INT32_MAX;

/// Returns the axis of channels and the first spatial axis of an activation.
static std::pair<int64_t, int64_t> getAxes(int64_t rank, bool channelsLast) {
  return channelsLast ? std::pair(rank - 1, int64_t(1))
                      : std::pair(int64_t(1), int64_t(2));
}

/// Checks the constraints of `conv` on (x, weight, y), whichever of the three
/// is the result.
template <typename Op>
static LogicalResult verifyGeometry(Op op, Value x, Value weight, Value y) {
  auto xType = cast<RankedTensorType>(x.getType());
  auto wType = cast<RankedTensorType>(weight.getType());
  auto yType = cast<RankedTensorType>(y.getType());
  int64_t rank = xType.getRank();
  if (rank < 3 || rank > 5 || wType.getRank() != rank ||
      yType.getRank() != rank) // C1
    return op.emitOpError("expects input, weight and output of equal rank 3, 4 "
                          "or 5, got ")
           << xType << ", " << wType << " and " << yType;
  for (ArrayRef<int64_t> list : {op.getStrides(), op.getPaddingLow(),
                                 op.getPaddingHigh(), op.getDilations()})
    if (static_cast<int64_t>(list.size()) != rank - 2)
      return op.emitOpError("expects ")
             << rank - 2 << " numbers per geometry list, got " << list.size();
  auto isFactor = [](int64_t n) { return n > 0 && n <= kLargestGeometry; };
  auto isPadding = [](int64_t n) { return n >= 0 && n <= kLargestGeometry; };
  if (!llvm::all_of(op.getStrides(), isFactor) ||
      !llvm::all_of(op.getDilations(), isFactor) ||
      !isFactor(op.getGroups())) // C2
    return op.emitOpError("expects positive strides, dilations and groups, "
                          "got [")
           << op.getStrides() << "], [" << op.getDilations() << "] and "
           << op.getGroups();
  if (!llvm::all_of(op.getPaddingLow(), isPadding) ||
      !llvm::all_of(op.getPaddingHigh(), isPadding)) // C2
    return op.emitOpError("expects padding of at least 0, got [")
           << op.getPaddingLow() << "] and [" << op.getPaddingHigh() << "]";

  int64_t groups = op.getGroups();
  auto [channelAxis, spatialAxis] = getAxes(rank, op.getChannelsLast());
  int64_t channels = xType.getDimSize(channelAxis);
  if (channels != groups * wType.getDimSize(1) ||
      wType.getDimSize(0) % groups != 0) // C3
    return op.emitOpError("weight ") << wType << " does not fit " << channels
                                     << " channels in " << groups << " groups";

  SmallVector<int64_t> shape(rank);
  shape[0] = xType.getDimSize(0);
  shape[channelAxis] = wType.getDimSize(0);
  for (int64_t i = 0; i < rank - 2; ++i) {
    int64_t reach = op.getDilations()[i] * (wType.getDimSize(2 + i) - 1) + 1;
    int64_t padded = xType.getDimSize(spatialAxis + i) + op.getPaddingLow()[i] +
                     op.getPaddingHigh()[i];
    if (padded < reach)
      return op.emitOpError("kernel reaches ")
             << reach << " elements along spatial axis " << i
             << ", the padded input has " << padded;
    shape[spatialAxis + i] = (padded - reach) / op.getStrides()[i] + 1;
  }
  if (yType.getShape() != ArrayRef(shape)) // C4
    return op.emitOpError("output is ")
           << yType << ", expected shape " << yType.clone(shape);
  return success();
}

LogicalResult ConvOp::verify() {
  if (getBias()) {
    auto type = cast<RankedTensorType>(getBias().getType());
    auto weight = cast<RankedTensorType>(getWeight().getType());
    if (type.getRank() != 1 || type.getDimSize(0) != weight.getDimSize(0))
      return emitOpError("expects a bias of ")
             << weight.getDimSize(0) << " elements, got " << type;
  }
  return verifyGeometry(*this, getX(), getWeight(), getY());
}

LogicalResult ConvInputGradOp::verify() {
  return verifyGeometry(*this, getY(), getWeight(), getGradient());
}

LogicalResult ConvWeightGradOp::verify() {
  return verifyGeometry(*this, getX(), getY(), getGradient());
}

/// Builds `Op`, another of the three convolution ops, with the geometry of
/// `op`.
template <typename Op, typename Like>
static Value buildRelatedConv(ImplicitLocOpBuilder &b, Like op, Type type,
                              Value lhs, Value rhs) {
  return Op::create(b, type, lhs, rhs, op.getStrides(), op.getPaddingLow(),
                    op.getPaddingHigh(), op.getDilations(), op.getGroups(),
                    op.getChannelsLast(), PrecisionAttr());
}

template <typename Like>
static Value buildConv(ImplicitLocOpBuilder &b, Like op, Type type, Value x,
                       Value weight) {
  return ConvOp::create(b, type, x, weight, /*bias=*/Value(), op.getStrides(),
                        op.getPaddingLow(), op.getPaddingHigh(),
                        op.getDilations(), op.getGroups(), op.getChannelsLast(),
                        PrecisionAttr());
}

SmallVector<Value> ConvOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                        ArrayRef<Value> cotangents) {
  Value dy = cotangents.front();
  SmallVector<Value> gradients = {
      buildRelatedConv<ConvInputGradOp>(b, *this, getX().getType(), dy,
                                        getWeight()),
      buildRelatedConv<ConvWeightGradOp>(b, *this, getWeight().getType(), dy,
                                         getX())};
  if (getBias()) {
    int64_t rank = cast<RankedTensorType>(dy.getType()).getRank();
    SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    llvm::erase(axes, getAxes(rank, getChannelsLast()).first);
    gradients.push_back(ReduceSumOp::create(b, dy, axes));
  }
  return gradients;
}

SmallVector<Value> ConvInputGradOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                                 ArrayRef<Value> cotangents) {
  Value dx = cotangents.front();
  return {buildConv(b, *this, getGradient().getType(), dx, getWeight()),
          buildRelatedConv<ConvWeightGradOp>(b, *this, getWeight().getType(),
                                             getGradient(), dx)};
}

SmallVector<Value> ConvWeightGradOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                                  ArrayRef<Value> cotangents) {
  Value dweight = cotangents.front();
  return {buildConv(b, *this, getGradient().getType(), getX(), dweight),
          buildRelatedConv<ConvInputGradOp>(b, *this, getX().getType(),
                                            getGradient(), dweight)};
}

FailureOr<SmallVector<Value>>
ConvOp::buildWithoutElements(ImplicitLocOpBuilder &b) {
  auto type = cast<RankedTensorType>(getType());
  int64_t channels = getAxes(type.getRank(), getChannelsLast()).first;
  return SmallVector<Value>{
      buildEmptyContraction(b, getBias(), type, channels)};
}
