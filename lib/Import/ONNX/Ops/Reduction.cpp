//===- Reduction.cpp - Import of reductions -------------------------------===//

#include "../OpTable.h"
#include "../TorchOp.h"
#include "Combine.h"
#include "binade/IR/Subgradient.h"

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

/// Reads the axes, an attribute in old opsets and an input in new ones. Without
/// axes, all are reduced, or none if `noop_with_empty_axes`.
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

/// Whether a reduced axis has no elements.
static bool isEmpty(Node &node, const Reduction &reduction) {
  return llvm::any_of(reduction.axes, [&](int64_t axis) {
    return node.getShape(0)[axis] == 0;
  });
}

/// Builds a reduction from elementwise ops: for integers, products and empty
/// axes.
static LogicalResult importTree(Node &node, const Reduction &reduction,
                                Combination combination) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  if (isEmpty(node, reduction))
    return node.setResult(
        buildNeutral(b, combination, type.clone(reduction.shape)));
  Value x = node.getInput(0);
  bool isNarrow = node.hasFloats(0) && type.getElementTypeBitWidth() < 32;
  if (isNarrow) // Round once, at the end.
    x = buildCast(b, x, b.getF32Type());
  for (int64_t axis : llvm::reverse(reduction.axes))
    x = combineAlong(b, combination, x, axis);
  return node.setResult(
      buildReshape(b, buildCast(b, x, type.getElementType()), reduction.shape));
}

/// Builds the maximum along `axes`. For equal maxima, `torch.max(x, dim)`,
/// which also returns the index, gives the whole gradient to the first; other
/// functions of PyTorch distribute it equally.
static Value reduceMax(Node &node, Value x, ArrayRef<int64_t> axes) {
  Value y = ReduceMaxOp::create(node.b, x, axes);
  StringRef function = getTorchOp(node);
  if (function == "max.dim" || function == "min.dim")
    setTies(y, Ties::First);
  return y;
}

/// Builds a reduction of floats by `Op`.
template <typename Op>
static LogicalResult importReduction(Node &node, const Reduction &reduction) {
  Value x = node.getInput(0);
  if (!reduction.axes.empty())
    x = Op::create(node.b, x, reduction.axes);
  return node.setResult(buildReshape(node.b, x, reduction.shape));
}

LogicalResult mlir::binade::importer::importReduceSum(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  return node.hasFloats(0) ? importReduction<ReduceSumOp>(node, *reduction)
                           : importTree(node, *reduction, Combination::Add);
}

LogicalResult mlir::binade::importer::importReduceProd(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  return importTree(node, *reduction, Combination::Mul);
}

LogicalResult mlir::binade::importer::importReduceMean(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction) || failed(requireFloats(node)))
    return failure();
  return importReduction<ReduceMeanOp>(node, *reduction);
}

LogicalResult mlir::binade::importer::importReduceMax(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  if (!node.hasFloats(0) || isEmpty(node, *reduction))
    return importTree(node, *reduction, Combination::Max);
  Value x = node.getInput(0);
  if (!reduction->axes.empty())
    x = reduceMax(node, x, reduction->axes);
  return node.setResult(buildReshape(node.b, x, reduction->shape));
}

LogicalResult mlir::binade::importer::importReduceMin(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  if (!node.hasFloats(0) || isEmpty(node, *reduction))
    return importTree(node, *reduction, Combination::Min);
  Value x = node.getInput(0);
  if (!reduction->axes.empty()) {
    Value negated = NegOp::create(node.b, x);
    x = NegOp::create(node.b, reduceMax(node, negated, reduction->axes));
  }
  return node.setResult(buildReshape(node.b, x, reduction->shape));
}

/// Builds `after` of the sum of `before` of each element, for floats.
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

/// Builds log sum e^(x - m) + m, where m is the largest x, or 0 if that is not
/// finite.
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
  Value centered =
      SubOp::create(b, x, buildBroadcast(b, largest, kept, type.getShape()));
  Value sum =
      ReduceSumOp::create(b, ExpOp::create(b, centered), reduction->axes);
  Value y = AddOp::create(b, LogOp::create(b, sum), largest);
  return node.setResult(buildReshape(b, y, reduction->shape));
}
