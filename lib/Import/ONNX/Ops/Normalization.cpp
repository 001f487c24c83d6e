//===- Normalization.cpp - Import of softmax and norms --------------------===//

#include "../OpTable.h"
#include "Arithmetic.h"
#include "NormRows.h"
#include "mlir/Dialect/Traits.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// Imports an op over one axis, which is transposed to be the last one. In
/// opsets before 13, all axes from `axis` on are merged.
template <typename Op> static LogicalResult importOverAxis(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  int64_t rank = node.getRank(0);
  bool isFlat = node.getOpset() < 13;
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", isFlat ? 1 : -1), rank);
  if (failed(axis))
    return failure();
  if (isFlat && *axis != rank - 1) {
    ArrayRef<int64_t> shape = node.getShape(0);
    SmallVector<int64_t> rows = {
        ShapedType::getNumElements(shape.take_front(*axis)),
        ShapedType::getNumElements(shape.drop_front(*axis))};
    Value x = buildReshape(node.b, node.getInput(0), rows);
    return node.setResult(
        buildReshape(node.b, Op::create(node.b, x, PrecisionAttr()), shape));
  }
  SmallVector<int64_t> last = getAxisLast(rank, *axis);
  Value x = buildTranspose(node.b, node.getInput(0), last);
  Value y = Op::create(node.b, x, PrecisionAttr());
  return node.setResult(
      buildTranspose(node.b, y, invertPermutationVector(last)));
}

LogicalResult mlir::binade::importer::importSoftmax(Node &node) {
  return importOverAxis<SoftmaxOp>(node);
}

LogicalResult mlir::binade::importer::importLogSoftmax(Node &node) {
  return importOverAxis<LogSoftmaxOp>(node);
}

//===----------------------------------------------------------------------===//
// Norms over the last axes: layer and RMS norm
//===----------------------------------------------------------------------===//

FailureOr<NormRows> mlir::binade::importer::readRows(Node &node) {
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", -1), node.getRank(0));
  if (failed(axis) || failed(requireFloats(node)))
    return failure();
  NormRows rows;
  llvm::append_range(rows.shape, node.getShape(0).take_front(*axis));
  llvm::append_range(rows.row, node.getShape(0).drop_front(*axis));
  rows.length = ShapedType::getNumElements(rows.row);
  rows.shape.push_back(rows.length);
  return rows;
}

Value NormRows::expand(ImplicitLocOpBuilder &b, Value statistic) const {
  SmallVector<int64_t> expanded(leading());
  expanded.append(row.size(), 1);
  return buildReshape(b, statistic, expanded);
}

FailureOr<Value>
mlir::binade::importer::readRowParameter(Node &node, unsigned index,
                                         StringRef name, const NormRows &rows) {
  if (!node.hasInput(index))
    return Value();
  SmallVector<int64_t> common;
  if (!OpTrait::util::getBroadcastedShape(rows.row, node.getShape(index),
                                          common) ||
      common != rows.row || !node.hasFloats(index))
    return node.emitUnsupported()
           << "expected " << name << " of shape [" << rows.row << "], got "
           << node.getType(index);
  return buildReshape(
      node.b, broadcastTo(node.b, node.getInput(index), rows.row), rows.length);
}

LogicalResult mlir::binade::importer::importLayerNormalization(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  double epsilon = node.getFloat("epsilon", 1e-5f);
  if (int64_t stash = node.getInt("stash_type", 1); stash != 1)
    return node.emitUnsupported() << "computes statistics in element type "
                                  << stash << "; only 1 (float) is supported";
  FailureOr<NormRows> rows = readRows(node);
  if (failed(rows))
    return failure();
  FailureOr<Value> scale = readRowParameter(node, 1, "scale", *rows);
  FailureOr<Value> bias = readRowParameter(node, 2, "bias", *rows);
  if (failed(scale) || failed(bias))
    return failure();
  auto norm =
      LayerNormOp::create(b, buildReshape(b, node.getInput(0), rows->shape),
                          *scale, *bias, APFloat(epsilon), PrecisionAttr());
  if (node.hasOutput(1))
    node.setOutput(1, rows->expand(b, norm.getMean()));
  if (node.hasOutput(2))
    node.setOutput(2, rows->expand(b, norm.getRstd()));
  return node.setResult(buildReshape(b, norm.getY(), node.getShape(0)));
}

FailureOr<RmsNormOp>
mlir::binade::importer::importRmsNorm(Node &node, const NormRows &rows) {
  ImplicitLocOpBuilder &b = node.b;
  double epsilon = node.getFloat("epsilon", 1e-5f);
  (void)node.getInt("stash_type", 1); // Means are always f32.
  FailureOr<Value> scale = readRowParameter(node, 1, "scale", rows);
  if (failed(scale))
    return failure();
  auto norm =
      RmsNormOp::create(b, buildReshape(b, node.getInput(0), rows.shape),
                        *scale, APFloat(epsilon), PrecisionAttr());
  node.setOutput(0, buildReshape(b, norm.getY(), node.getShape(0)));
  return norm;
}

LogicalResult mlir::binade::importer::importRMSNormalization(Node &node) {
  FailureOr<NormRows> rows = readRows(node);
  return failure(failed(rows) || failed(importRmsNorm(node, *rows)));
}

//===----------------------------------------------------------------------===//
// Other norms
//===----------------------------------------------------------------------===//

/// Normalizes input 0, [N, C, ...], in rows of `length` elements to mean 0 and
/// deviation 1; then multiplies by scale[C] and adds bias[C].
static Value normalizeRows(Node &node, int64_t length, double epsilon) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  Value rows = buildReshape(
      b, node.getInput(0),
      {type.getNumElements() / std::max<int64_t>(length, 1), length});
  Value ones =
      buildSplat(b, RankedTensorType::get(length, type.getElementType()), 1.0);
  Value y = LayerNormOp::create(b, rows, ones, Value(), APFloat(epsilon),
                                PrecisionAttr())
                .getY();
  y = buildReshape(b, y, type.getShape());
  auto perChannel = [&](unsigned index) {
    return buildBroadcast(b, node.getInput(index), {1}, type.getShape());
  };
  y = MulOp::create(b, y, perChannel(1));
  return AddOp::create(b, y, perChannel(2));
}

static LogicalResult checkChannels(Node &node) {
  RankedTensorType x = node.getType(0);
  if (x.getRank() < 2 || !node.hasFloats(0))
    return node.emitUnsupported()
           << "expected [N, C, ...] of floats, got " << x;
  auto expected = RankedTensorType::get(x.getDimSize(1), x.getElementType());
  for (unsigned index : {1u, 2u})
    if (node.getType(index) != expected)
      return node.emitError() << "expected scale and bias " << expected
                              << ", got " << node.getType(index);
  return success();
}

LogicalResult mlir::binade::importer::importInstanceNormalization(Node &node) {
  double epsilon = node.getFloat("epsilon", 1e-5f);
  if (failed(checkChannels(node)))
    return failure();
  ArrayRef<int64_t> spatial = node.getShape(0).drop_front(2);
  return node.setResult(
      normalizeRows(node, ShapedType::getNumElements(spatial), epsilon));
}

LogicalResult mlir::binade::importer::importGroupNormalization(Node &node) {
  double epsilon = node.getFloat("epsilon", 1e-5f);
  int64_t groups = node.getInt("num_groups", 0);
  (void)node.getInt("stash_type", 1); // Statistics are always f32.
  if (failed(checkChannels(node)))
    return failure();
  ArrayRef<int64_t> sample = node.getShape(0).drop_front();
  if (groups < 1 || sample.front() % groups != 0)
    return node.emitError() << "cannot make " << groups << " groups of "
                            << sample.front() << " channels";
  return node.setResult(normalizeRows(
      node, ShapedType::getNumElements(sample) / groups, epsilon));
}

LogicalResult mlir::binade::importer::importLpNormalization(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  if (failed(requireFloats(node)))
    return failure();
  RankedTensorType type = node.getType(0);
  FailureOr<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", -1), type.getRank());
  int64_t power = node.getInt("p", 2);
  if (failed(axis))
    return failure();
  if (power != 1 && power != 2)
    return node.emitError() << "expected p to be 1 or 2, got " << power;
  SmallVector<int64_t> kept =
      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  kept.erase(kept.begin() + *axis);
  Value x = node.getInput(0);
  Value size =
      power == 1 ? Value(AbsOp::create(b, x)) : Value(MulOp::create(b, x, x));
  Value norm = ReduceSumOp::create(b, size, *axis);
  if (power == 2)
    norm = SqrtOp::create(b, norm);
  norm = buildBroadcast(b, norm, kept, type.getShape());
  // As in ONNX's reference, vectors of norm 0 stay 0.
  Value zero = buildSplat(b, type, 0.0), one = buildSplat(b, type, 1.0);
  Value isZero = CompareOp::create(b, norm, zero, Comparison::Equal);
  Value by = SelectOp::create(b, isZero, one, norm);
  return node.setResult(
      SelectOp::create(b, isZero, zero, DivOp::create(b, x, by)));
}

//===----------------------------------------------------------------------===//
// BatchNormalization
//===----------------------------------------------------------------------===//

/// Builds new = old momentum + batch correction (1 - momentum).
static Value updateStatistic(ImplicitLocOpBuilder &b, Value old, Value batch,
                             double momentum, double correction) {
  Type type = old.getType();
  auto times = [&](Value x, double factor) -> Value {
    return MulOp::create(b, x, buildSplat(b, type, factor));
  };
  batch = buildCast(b, batch, getElementTypeOrSelf(type));
  if (correction != 1.0)
    batch = times(batch, correction);
  return AddOp::create(b, times(old, momentum), times(batch, 1.0 - momentum));
}

LogicalResult mlir::binade::importer::importBatchNormalization(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType x = node.getType(0);
  if (x.getRank() < 2 || !node.hasFloats(0))
    return node.emitUnsupported()
           << "expected [N, C, ...] of floats, got " << x;
  auto perChannel = RankedTensorType::get(x.getDimSize(1), x.getElementType());
  for (unsigned index : {1u, 2u, 3u, 4u})
    if (node.getShape(index) != perChannel.getShape() || !node.hasFloats(index))
      return node.emitError()
             << "expected one element for each of " << x.getDimSize(1)
             << " channels, got " << node.getType(index);
  double epsilon = node.getFloat("epsilon", 1e-5f);
  double momentum = node.getFloat("momentum", 0.9f);
  bool isTraining = node.getInt("training_mode", 0);
  if (!isTraining && failed(node.refuseOutputs(
                         1, "statistics are outputs in training mode only, "
                            "which is training_mode = 1 of opset 14")))
    return failure();
  Type f32 = b.getF32Type();
  auto normalize = [&](Value mean, Value variance) {
    return BatchNormOp::create(
        b, x, node.getInput(0), node.getInput(1), node.getInput(2), mean,
        variance, APFloat(epsilon), /*axis=*/1, isTraining, PrecisionAttr());
  };
  if (!isTraining)
    return node.setResult(normalize(buildCast(b, node.getInput(3), f32),
                                    buildCast(b, node.getInput(4), f32)));
  auto statistics = BatchNormStatisticsOp::create(b, node.getInput(0),
                                                  /*axis=*/1, PrecisionAttr());
  node.setOutput(0, normalize(statistics.getMean(), statistics.getVariance()));
  double count = static_cast<double>(x.getNumElements()) /
                 std::max<int64_t>(x.getDimSize(1), 1);
  for (unsigned index : {3u, 4u}) {
    StringRef name = node.getInputName(index);
    bool isVariance = index == 4;
    double correction = 1.0;
    if (isVariance && node.graph.isUnbiased(name)) {
      if (count < 2)
        return node.emitUnsupported()
               << "has one element per channel: its unbiased "
                  "variance does not exist";
      correction = count / (count - 1);
    }
    Value updated = updateStatistic(b, node.graph.getBuffer(name),
                                    isVariance ? statistics.getVariance()
                                               : statistics.getMean(),
                                    momentum, correction);
    node.graph.updateBuffer(name, updated);
    node.setOutput(index - 2, updated);
  }
  return success();
}

/// Builds x / (bias + alpha / size * sum)^beta, where sum adds the squares of
/// `size` neighboring channels.
LogicalResult mlir::binade::importer::importLRN(Node &node) {
  double alpha = node.getFloat("alpha", 1e-4f),
         beta = node.getFloat("beta", 0.75f),
         bias = node.getFloat("bias", 1.0f);
  int64_t size = node.getInt("size", 0), rank = node.getRank(0);
  if (size < 1 || size > 1024 || rank < 2)
    return node.emitUnsupported()
           << "expected [N, C, ...] and a size of 1 to 1024, "
           << "got " << node.getType(0) << " and " << size;
  return importFunction(node, [&](Arithmetic &a) {
    SmallVector<int64_t> shape(a.type.getShape()), offsets(rank, 0),
        ones(rank, 1);
    int64_t channels = shape[1];
    offsets[1] = (size - 1) / 2;
    shape[1] += size - 1;
    Value squares = a.mul(a.x, a.x), sum;
    if (size > 1)
      squares = PadOp::create(a.b, a.type.clone(shape), squares, offsets, ones);
    for (int64_t i = 0; i < size; ++i) {
      Value term = buildSlice(a.b, squares, 1, i, channels);
      sum = sum ? a.add(sum, term) : term;
    }
    Value base = a.add(a.mul(sum, alpha / static_cast<double>(size)), bias);
    return a.div(a.x, PowOp::create(a.b, base, a.splat(beta)));
  });
}

/// Builds (x - mean) / (deviation + 1e-9), with statistics over `axes`.
LogicalResult
mlir::binade::importer::importMeanVarianceNormalization(Node &node) {
  FailureOr<SmallVector<int64_t>> axes =
      node.normalizeAxes(node.getInts("axes", {0, 2, 3}), node.getRank(0));
  if (failed(axes))
    return failure();
  return importFunction(node, [&](Arithmetic &a) {
    SmallVector<int64_t> kept;
    for (int64_t axis = 0; axis < a.type.getRank(); ++axis)
      if (!llvm::is_contained(*axes, axis))
        kept.push_back(axis);
    auto mean = [&](Value x) {
      return buildBroadcast(a.b, ReduceMeanOp::create(a.b, x, *axes), kept,
                            a.type.getShape());
    };
    Value centered = a.sub(a.x, mean(a.x));
    Value deviation = a.sqrt(mean(a.mul(centered, centered)));
    return a.div(centered, a.add(deviation, 1e-9));
  });
}
