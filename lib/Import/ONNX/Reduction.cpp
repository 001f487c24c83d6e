//===- Reduction.cpp - Reductions over axes -------------------------------===//

#include "OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

namespace {
struct Reduction {
  SmallVector<int64_t> axes;
  /// The result's shape, with or without the reduced axes.
  SmallVector<int64_t> shape;
};
} // namespace

/// Axes are an attribute in old opsets and an input in new ones; without any,
/// all are reduced, or none with `noop_with_empty_axes`.
static FailureOr<Reduction> readReduction(Node &node) {
  int64_t rank = node.getRank(0);
  FailureOr<SmallVector<int64_t>> axes = node.getInts("axes");
  if (node.hasInput(1))
    axes = node.getIntegers(1, "axes");
  bool isNoop = node.getInt("noop_with_empty_axes", 0);
  bool keeps = node.getInt("keepdims", 1);
  if (failed(axes))
    return failure();
  if (axes->empty() && !isNoop)
    axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  axes = node.normalizeAxes(*axes, rank);
  if (failed(axes))
    return failure();
  Reduction reduction{*axes, {}};
  for (auto [axis, size] : llvm::enumerate(node.getShape(0))) {
    bool isReduced = llvm::is_contained(*axes, axis);
    if (!isReduced || keeps)
      reduction.shape.push_back(isReduced ? 1 : size);
  }
  return reduction;
}

template <typename Op>
static LogicalResult
importReduction(Node &node, function_ref<int64_t(int64_t, int64_t)> combine) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  if (combine && !node.hasFloats(0))
    return reduceIntegers(node, reduction->axes, reduction->shape, combine);
  if (failed(requireFloats(node)))
    return failure();
  Value x = node.getInput(0);
  if (!reduction->axes.empty())
    x = Op::create(node.b, x, reduction->axes);
  return node.setResult(buildReshape(node.b, x, reduction->shape));
}

LogicalResult mlir::binade::importer::importReduceSum(Node &node) {
  return importReduction<ReduceSumOp>(node, [](int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) + y);
  });
}

LogicalResult mlir::binade::importer::importReduceMean(Node &node) {
  return importReduction<ReduceMeanOp>(node, {});
}

LogicalResult mlir::binade::importer::importReduceMax(Node &node) {
  return importReduction<ReduceMaxOp>(
      node, [](int64_t x, int64_t y) { return std::max(x, y); });
}

LogicalResult mlir::binade::importer::importReduceMin(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  if (!node.hasFloats(0))
    return reduceIntegers(node, reduction->axes, reduction->shape,
                          [](int64_t x, int64_t y) { return std::min(x, y); });
  Value x = node.getInput(0);
  if (!reduction->axes.empty()) {
    Value negated = NegOp::create(node.b, x);
    x = NegOp::create(node.b,
                      ReduceMaxOp::create(node.b, negated, reduction->axes));
  }
  return node.setResult(buildReshape(node.b, x, reduction->shape));
}

/// Of floats: what `before` makes of each element is added up, and the sum is
/// what `after` makes of it.
using OnTensor = function_ref<Value(ImplicitLocOpBuilder &, Value)>;
static LogicalResult importSumOf(Node &node, OnTensor before, OnTensor after) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction) || failed(requireFloats(node)))
    return failure();
  Value x = before(node.b, node.getInput(0));
  if (!reduction->axes.empty())
    x = ReduceSumOp::create(node.b, x, reduction->axes);
  return node.setResult(
      buildReshape(node.b, after(node.b, x), reduction->shape));
}

static Value keep(ImplicitLocOpBuilder &, Value x) { return x; }
static Value square(ImplicitLocOpBuilder &b, Value x) {
  return MulOp::create(b, x, x);
}
template <typename Op> static Value apply(ImplicitLocOpBuilder &b, Value x) {
  return Op::create(b, x);
}

LogicalResult mlir::binade::importer::importReduceL1(Node &node) {
  return importSumOf(node, apply<AbsOp>, keep);
}

LogicalResult mlir::binade::importer::importReduceL2(Node &node) {
  return importSumOf(node, square, apply<SqrtOp>);
}

LogicalResult mlir::binade::importer::importReduceLogSum(Node &node) {
  return importSumOf(node, keep, apply<LogOp>);
}

LogicalResult mlir::binade::importer::importReduceSumSquare(Node &node) {
  return importSumOf(node, square, keep);
}

/// log sum e^(x - m) + m, m the largest x, or 0 where that is not finite.
LogicalResult mlir::binade::importer::importReduceLogSumExp(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction) || failed(requireFloats(node)))
    return failure();
  Value x = node.getInput(0);
  if (reduction->axes.empty())
    return node.setResult(x);
  RankedTensorType type = node.getType(0);
  SmallVector<int64_t> kept;
  for (int64_t axis = 0; axis < type.getRank(); ++axis)
    if (!llvm::is_contained(reduction->axes, axis))
      kept.push_back(axis);
  Value largest = ReduceMaxOp::create(b, x, reduction->axes);
  Value size = AbsOp::create(b, largest);
  Value isFinite = CompareOp::create(
      b, size, buildSplat(b, size.getType(), INFINITY), Comparison::Less);
  Value zero = buildSplat(b, largest.getType(), 0.0);
  largest = SelectOp::create(b, isFinite, largest, zero);
  Value apart =
      SubOp::create(b, x, buildBroadcast(b, largest, kept, type.getShape()));
  Value sum = ReduceSumOp::create(b, ExpOp::create(b, apart), reduction->axes);
  Value y = AddOp::create(b, LogOp::create(b, sum), largest);
  return node.setResult(buildReshape(b, y, reduction->shape));
}

LogicalResult mlir::binade::importer::importReduceProd(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  if (node.hasFloats(0))
    return node.emitError() << "of floats is not supported";
  return reduceIntegers(
      node, reduction->axes, reduction->shape, [](int64_t x, int64_t y) {
        return static_cast<int64_t>(static_cast<uint64_t>(x) * y);
      });
}
