//===- LibraryCalls.cpp - Library calls as records ------------------------===//

#include "LibraryCalls.h"
#include "../Layout/Strides.h"
#include "binade/IR/InternalError.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using PlaceOf = std::function<plan::View(Value)>;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Returns the place of the matrices of `value`, transposed by strides.
static plan::View getMatrix(Value value, bool transpose, const PlaceOf &place) {
  plan::View view = place(value);
  view.strides = getStrides(getShape(value));
  if (transpose)
    std::swap(view.strides[view.strides.size() - 1],
              view.strides[view.strides.size() - 2]);
  return view;
}

/// Returns a matmul of two operands, each transposed or not.
static plan::Matmul build(Value lhs, bool transposeLhs, Value rhs,
                          bool transposeRhs, Value y, const PlaceOf &place) {
  plan::Matmul matmul;
  matmul.lhs = getMatrix(lhs, transposeLhs, place);
  matmul.rhs = getMatrix(rhs, transposeRhs, place);
  matmul.out = getMatrix(y, false, place);
  ArrayRef<int64_t> shape = getShape(y);
  matmul.batch.assign(shape.begin(), shape.end() - 2);
  matmul.m = shape[shape.size() - 2];
  matmul.n = shape.back();
  matmul.k = getShape(lhs)[shape.size() - (transposeLhs ? 2 : 1)];
  return matmul;
}

/// Returns the place of the bias of a matmul, if it has one.
static std::optional<plan::View> getBias(Value bias, const PlaceOf &place) {
  if (!bias)
    return std::nullopt;
  plan::View view = place(bias);
  view.strides = {1};
  return view;
}

static plan::Matmul build(MatmulOp op, const PlaceOf &place) {
  plan::Matmul matmul = build(op.getLhs(), op.getTransposeLhs(), op.getRhs(),
                              op.getTransposeRhs(), op.getY(), place);
  matmul.bias = getBias(op.getBias(), place);
  PrecisionAttr precision = op.getPrecision();
  matmul.tf32 = precision && isa<FloatTF32Type>(precision.getCompute());
  return matmul;
}

/// Returns the strides of block scales with `rows` rows per block: along rows,
/// then along the contracted axis.
static std::vector<int64_t> getScaleStrides(Value scale, int64_t rows) {
  int64_t length = getShape(scale).back();
  if (rows == 1)
    return {1, length};
  return {length, 1};
}

static plan::Matmul build(ScaledMatmulOp op, const PlaceOf &place) {
  plan::Matmul matmul =
      build(op.getLhs(), false, op.getRhs(), true, op.getY(), place);
  matmul.lhsScale = place(op.getLhsScale());
  matmul.rhsScale = place(op.getRhsScale());
  matmul.bias = getBias(op.getBias(), place);
  if (AccumulationAttr found = op.getAccumulationAttr())
    matmul.accumulation = {found.getBits(), found.getStep(),
                           found.getPromote()};
  if (std::optional<ArrayRef<int64_t>> block = op.getBlock()) {
    matmul.block = {(*block)[0], (*block)[1], (*block)[2]};
    matmul.lhsScale->strides =
        getScaleStrides(op.getLhsScale(), matmul.block->m);
    matmul.rhsScale->strides =
        getScaleStrides(op.getRhsScale(), matmul.block->n);
  }
  return matmul;
}

/// Returns a convolution or a gradient of one, from its three tensors.
template <typename Op>
static plan::Convolution build(Op op, plan::Convolution::Direction direction,
                               Value x, Value weight, Value y,
                               const PlaceOf &place) {
  plan::Convolution conv;
  conv.direction = direction;
  auto view = [&](Value value) {
    plan::View result = place(value);
    result.strides = getStrides(getShape(value));
    return result;
  };
  conv.x = view(x);
  conv.weight = view(weight);
  conv.y = view(y);
  conv.channelsLast = op.getChannelsLast();
  ArrayRef<int64_t> in = getShape(x), w = getShape(weight), out = getShape(y);
  conv.batch = in[0];
  conv.inChannels = conv.channelsLast ? in.back() : in[1];
  conv.outChannels = w[0];
  conv.groups = op.getGroups();
  auto spatial = [&](ArrayRef<int64_t> shape) {
    ArrayRef<int64_t> sizes = conv.channelsLast ? shape.drop_front().drop_back()
                                                : shape.drop_front(2);
    return std::vector<int64_t>(sizes);
  };
  conv.input = spatial(in);
  conv.output = spatial(out);
  conv.kernel = std::vector<int64_t>(w.drop_front(2));
  conv.strides = std::vector<int64_t>(op.getStrides());
  conv.dilations = std::vector<int64_t>(op.getDilations());
  conv.paddingLow = std::vector<int64_t>(op.getPaddingLow());
  conv.paddingHigh = std::vector<int64_t>(op.getPaddingHigh());
  return conv;
}

/// Returns the place of `value`, following elided movements.
static plan::View getRows(Value value, const PlaceOf &place) {
  Strided strided = *findStrides(value, isElided);
  plan::View view = place(strided.base);
  view.offset += strided.offset;
  view.strides.assign(strided.strides.begin(), strided.strides.end());
  return view;
}

/// Biases, masks and the state of the generator are read as they are.
bool mlir::binade::hasStrides(OpOperand &operand) {
  unsigned number = operand.getOperandNumber();
  if (isa<AttentionGradOp>(operand.getOwner()))
    return number < 5;
  return isa<AttentionOp>(operand.getOwner()) && number < 3;
}

bool mlir::binade::hasStrides(OpResult result) {
  if (auto attention = dyn_cast<AttentionOp>(result.getOwner()))
    return result != attention.getLse();
  return isa<AttentionGradOp>(result.getOwner()) &&
         result.getResultNumber() < 3;
}

/// Returns the place of a mask, a bias or the gradient of one, which is
/// broadcast along its axes of size 1.
static plan::View getBroadcast(Value value, const PlaceOf &place) {
  plan::View view = place(value);
  view.strides = getStrides(getShape(value));
  for (auto [stride, size] : llvm::zip(view.strides, getShape(value)))
    if (size == 1)
      stride = 0;
  return view;
}

template <typename Op>
static plan::AttentionExtras buildExtras(Op op, const PlaceOf &place) {
  plan::AttentionExtras extras;
  for (Value bias : op.getBiases())
    extras.biases.push_back(getBroadcast(bias, place));
  if (Value mask = op.getMask())
    extras.mask = getBroadcast(mask, place);
  if (Value rng = op.getRng()) {
    plan::View state = place(rng);
    state.strides = {1};
    extras.dropout = {state, op.getRatio().convertToDouble(),
                      static_cast<int64_t>(op.getStream())};
  }
  extras.softcap = op.getSoftcap().convertToDouble();
  extras.fill = static_cast<float>(op.getFill().convertToDouble());
  extras.zeroHidden = op.getZeroHidden();
  extras.zeroNan = op.getZeroNan();
  return extras;
}

/// Returns the gradients of biases that something reads.
static std::vector<plan::Attention::BiasGradient>
buildBiasGradients(AttentionGradOp op, const PlaceOf &place) {
  std::vector<plan::Attention::BiasGradient> gradients;
  for (auto [number, result] : llvm::enumerate(op.getDbiases()))
    if (!result.use_empty())
      gradients.push_back(
          {static_cast<int64_t>(number), getBroadcast(result, place)});
  return gradients;
}

bool mlir::binade::isOmitted(OpResult result) {
  return isa<AttentionGradOp>(result.getOwner()) &&
         result.getResultNumber() >= 3 && result.use_empty();
}

/// Returns an attention or its gradients.
template <typename Op>
static plan::Attention build(Op op, const PlaceOf &place) {
  plan::Attention attention;
  attention.query = getRows(op.getQuery(), place);
  attention.key = getRows(op.getKey(), place);
  attention.value = getRows(op.getValue(), place);
  attention.y = getRows(op.getY(), place);
  attention.lse = getRows(op.getLse(), place);
  ArrayRef<int64_t> query = getShape(op.getQuery()),
                    value = getShape(op.getValue()), outer = query.drop_back(2);
  attention.batch.assign(outer.begin(), outer.end());
  attention.grouped = getShape(op.getKey()).drop_back(2) != outer;
  attention.queries = query[outer.size()];
  attention.keys = value[outer.size()];
  attention.depth = query.back();
  attention.width = value.back();
  attention.scale = op.getScale().convertToDouble();
  attention.causal = op.getCausal();
  attention.extras = buildExtras(op, place);
  return attention;
}

FailureOr<plan::Record> mlir::binade::buildLibraryCall(Operation *op,
                                                       const PlaceOf &place) {
  using Direction = plan::Convolution;
  for (Type type : op->getOperandTypes())
    if (getElementTypeOrSelf(type).isF64())
      return op->emitError("has an operand of f64, for which there is no "
                           "kernel; expected f32 or a narrower format");
  plan::Record record;
  bool known =
      llvm::TypeSwitch<Operation *, bool>(op)
          .Case([&](MatmulOp matmul) {
            record.body = build(matmul, place);
            return true;
          })
          .Case([&](ScaledMatmulOp matmul) {
            record.body = build(matmul, place);
            return true;
          })
          .Case([&](ConvOp conv) {
            plan::Convolution call =
                build(conv, Direction::Forward, conv.getX(), conv.getWeight(),
                      conv.getY(), place);
            if (Value bias = conv.getBias())
              call.bias = place(bias);
            record.body = std::move(call);
            return true;
          })
          .Case([&](ConvInputGradOp conv) {
            record.body = build(conv, Direction::InputGrad, conv.getY(),
                                conv.getWeight(), conv.getGradient(), place);
            return true;
          })
          .Case([&](ConvWeightGradOp conv) {
            record.body = build(conv, Direction::WeightGrad, conv.getX(),
                                conv.getY(), conv.getGradient(), place);
            return true;
          })
          .Case([&](AttentionOp attention) {
            record.body = build(attention, place);
            return true;
          })
          .Case([&](AttentionGradOp op) {
            plan::Attention attention = build(op, place);
            attention.gradients = {
                getRows(op.getGradient(), place),
                getRows(op.getDquery(), place), getRows(op.getDkey(), place),
                getRows(op.getDvalue(), place), buildBiasGradients(op, place)};
            record.body = std::move(attention);
            return true;
          })
          .Default(false);
  if (!known)
    return emitInternalError(op->getLoc())
           << "no plan record describes '" << op->getName() << "'";
  return record;
}
