//===- Loss.cpp - Losses of the graph and of --loss -----------------------===//

#include "Loss.h"
#include "OpTable.h"
#include "binade/IR/Labels.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

//===----------------------------------------------------------------------===//
// Cross-entropy
//===----------------------------------------------------------------------===//

/// Returns `x`, whose class axis is `axis`, as rows [rows, classes].
static Value flattenRows(ImplicitLocOpBuilder &b, Value x, int64_t axis) {
  auto type = cast<RankedTensorType>(x.getType());
  Value last = buildTranspose(b, x, getAxisLast(type.getRank(), axis));
  ArrayRef<int64_t> shape = cast<RankedTensorType>(last.getType()).getShape();
  return buildReshape(
      b, last, {ShapedType::getNumElements(shape.drop_back()), shape.back()});
}

static Value flatten(ImplicitLocOpBuilder &b, Value x) {
  return buildReshape(b, x,
                      cast<RankedTensorType>(x.getType()).getNumElements());
}

/// Builds the mean over the labels that are not ignored.
static Value buildMean(ImplicitLocOpBuilder &b, Value losses, Value labels,
                       int64_t ignoreIndex) {
  Value sum = ReduceSumOp::create(b, losses, ArrayRef<int64_t>{0});
  Value weight = LabelWeightOp::create(b, labels, ignoreIndex);
  return MulOp::create(b, sum, weight);
}

/// Builds the class weight (input 2) of each of `labels`, 0 for ignored labels.
static Value buildClassWeights(Node &node, Value labels, int64_t ignoreIndex,
                               Type element) {
  ImplicitLocOpBuilder &b = node.b;
  auto type = cast<RankedTensorType>(labels.getType());
  Value ignored = ConstantOp::create(
      b, DenseElementsAttr::get(
             type,
             Attribute(b.getIntegerAttr(type.getElementType(), ignoreIndex))));
  Value table = buildCast(b, node.getInput(2), element);
  if (ignoreIndex == kIgnoreNothing)
    return GatherOp::create(b, table, labels, PrecisionAttr());
  Value isIgnored = CompareOp::create(b, labels, ignored, Comparison::Equal);
  // An ignored label need not be a valid class.
  labels = SelectOp::create(b, isIgnored, buildSplat(b, type, 0.0), labels);
  Value weights = GatherOp::create(b, table, labels, PrecisionAttr());
  return SelectOp::create(b, isIgnored, buildSplat(b, weights.getType(), 0.0),
                          weights);
}

/// Sets output 0 to the per-row `losses`, weighted by class and reduced as the
/// node's attribute `reduction` says.
static LogicalResult reduceLosses(Node &node, Value losses, Value labels,
                                  int64_t ignoreIndex) {
  ImplicitLocOpBuilder &b = node.b;
  StringRef reduction = node.getString("reduction", "mean");
  Value loss, weights;
  if (node.hasInput(2)) {
    weights = buildClassWeights(node, labels, ignoreIndex,
                                getElementTypeOrSelf(losses.getType()));
    losses = MulOp::create(b, losses, weights);
  }
  if (reduction == "mean" && weights)
    loss =
        DivOp::create(b, ReduceSumOp::create(b, losses, ArrayRef<int64_t>{0}),
                      ReduceSumOp::create(b, weights, ArrayRef<int64_t>{0}));
  else if (reduction == "mean")
    loss = buildMean(b, losses, labels, ignoreIndex);
  else if (reduction == "sum")
    loss = ReduceSumOp::create(b, losses, ArrayRef<int64_t>{0});
  else if (reduction == "none")
    loss = buildReshape(b, losses, node.getShape(1));
  else
    return node.emitError() << "does not know reduction " << quote(reduction);
  return node.setResult(buildCast(b, loss, node.getElement(0)));
}

/// Checks the inputs of both losses: scores [N, C, ...], labels [N, ...] and
/// optional class weights [C].
static LogicalResult checkScores(Node &node) {
  RankedTensorType scores = node.getType(0), labels = node.getType(1);
  bool isInteger = labels.getElementType().isInteger(32) ||
                   labels.getElementType().isInteger(64);
  bool isValid = scores.getRank() >= 2 && node.hasFloats(0) && isInteger &&
                 labels.getRank() == scores.getRank() - 1;
  if (isValid) {
    SmallVector<int64_t> expected(scores.getShape());
    expected.erase(expected.begin() + 1);
    isValid = ArrayRef(expected) == labels.getShape();
  }
  if (!isValid)
    return node.emitError() << "expected scores [N, C, ...] and integer labels "
                               "[N, ...], got "
                            << scores << " and " << labels;
  if (node.hasInput(2) &&
      (!node.hasFloats(2) || node.getShape(2) != scores.getShape().slice(1, 1)))
    return node.emitError()
           << "expected a weight for each of " << scores.getDimSize(1)
           << " classes, got " << node.getType(2);
  return success();
}

LogicalResult
mlir::binade::importer::importSoftmaxCrossEntropyLoss(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  if (failed(checkScores(node)))
    return failure();
  int64_t ignoreIndex = node.getInt("ignore_index", kIgnoreNothing);
  Value scores = node.getInput(0), labels = flatten(b, node.getInput(1));
  auto entropy = CrossEntropyOp::create(b, flattenRows(b, scores, 1), labels,
                                        ignoreIndex, PrecisionAttr());
  if (node.hasOutput(1) && node.graph.isUsed(node.getOutputName(1))) {
    SmallVector<int64_t> last = getAxisLast(node.getRank(0), 1);
    Value logarithms = LogSoftmaxOp::create(b, buildTranspose(b, scores, last),
                                            PrecisionAttr());
    node.setOutput(
        1, buildTranspose(b, logarithms, invertPermutationVector(last)));
  }
  return reduceLosses(node, entropy.getLosses(), labels, ignoreIndex);
}

/// Builds the negated log-probability of each label, selected by comparing
/// labels with class numbers. If the input is the result of a `log_softmax` of
/// a matrix, builds the cross-entropy of its operand instead.
LogicalResult
mlir::binade::importer::importNegativeLogLikelihoodLoss(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  if (failed(checkScores(node)))
    return failure();
  int64_t ignoreIndex = node.getInt("ignore_index", kIgnoreNothing);
  Value labels = flatten(b, node.getInput(1));
  Value rows = flattenRows(b, node.getInput(0), 1);
  if (auto logarithms = node.getInput(0).getDefiningOp<LogSoftmaxOp>();
      logarithms && node.getRank(0) == 2) {
    auto entropy = CrossEntropyOp::create(b, logarithms.getX(), labels,
                                          ignoreIndex, PrecisionAttr());
    return reduceLosses(node, entropy.getLosses(), labels, ignoreIndex);
  }
  ArrayRef<int64_t> shape = cast<RankedTensorType>(rows.getType()).getShape();
  labels = CheckIndexOp::create(b, labels, 0, shape.back(),
                                ignoreIndex == kIgnoreNothing
                                    ? IntegerAttr()
                                    : b.getI64IntegerAttr(ignoreIndex));
  auto integers = cast<RankedTensorType>(labels.getType()).clone(shape);
  auto perRow = [&](Value x) { return buildBroadcast(b, x, {0}, shape); };
  Value classes = IotaOp::create(b, integers, b.getI64IntegerAttr(1));
  Value isLabel =
      CompareOp::create(b, classes, perRow(labels), Comparison::Equal);
  Value zero = buildSplat(b, rows.getType(), 0.0);
  Value picked = SelectOp::create(b, isLabel, rows, zero);
  Value losses =
      NegOp::create(b, ReduceSumOp::create(b, picked, ArrayRef<int64_t>{1}));
  if (ignoreIndex != kIgnoreNothing) {
    Value ignored = ConstantOp::create(
        b, DenseElementsAttr::get(
               cast<RankedTensorType>(labels.getType()),
               Attribute(b.getIntegerAttr(node.getElement(1), ignoreIndex))));
    Value isIgnored = CompareOp::create(b, labels, ignored, Comparison::Equal);
    losses = SelectOp::create(b, isIgnored,
                              buildSplat(b, losses.getType(), 0.0), losses);
  }
  return reduceLosses(node, losses, labels, ignoreIndex);
}

/// Builds the gradient from log-probabilities: they replace the logits, with a
/// maximum and a log-sum of 0, because their exponentials are probabilities
/// already.
LogicalResult
mlir::binade::importer::importSoftmaxCrossEntropyLossGrad(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t ignoreIndex = node.getInt("ignore_index", kIgnoreNothing);
  StringRef reduction = node.getString("reduction", "mean");
  RankedTensorType type = node.getType(1), labelType = node.getType(2);
  bool isInteger = labelType.getElementType().isInteger(32) ||
                   labelType.getElementType().isInteger(64);
  int64_t count = labelType.getNumElements();
  if (type.getRank() < 2 || !node.hasFloats(0) || !node.hasFloats(1) ||
      !isInteger || type.getNumElements() != count * type.getDimSize(1) ||
      node.getType(0).getNumElements() != (reduction == "none" ? count : 1))
    return node.emitError()
           << "expected a gradient, log-probabilities [N, C, "
              "...] and integer labels [N, ...], got "
           << node.getType(0) << ", " << type << " and " << labelType;
  if (node.hasInput(3))
    return node.emitError() << "class weights are not supported";
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return node.emitError() << "does not know reduction " << quote(reduction);
  Value labels = flatten(b, node.getInput(2));
  Value gradient = buildCast(b, node.getInput(0), b.getF32Type());
  if (reduction == "none") {
    gradient = buildReshape(b, gradient, count);
  } else {
    gradient = buildReshape(b, gradient, {});
    if (reduction == "mean")
      gradient = MulOp::create(b, gradient,
                               LabelWeightOp::create(b, labels, ignoreIndex));
    gradient = broadcastTo(b, gradient, count);
  }
  Value rows = flattenRows(b, node.getInput(1), 1);
  Value none = buildSplat(b, gradient.getType(), 0.0);
  Value dlogits =
      CrossEntropyGradOp::create(b, rows.getType(), gradient, rows, labels,
                                 none, none, ignoreIndex, PrecisionAttr());
  SmallVector<int64_t> last = getAxisLast(type.getRank(), 1);
  Value moved =
      buildReshape(b, dlogits, applyPermutation(type.getShape(), last));
  return node.setResult(
      buildTranspose(b, moved, invertPermutationVector(last)));
}

//===----------------------------------------------------------------------===//
// Losses of the command line
//===----------------------------------------------------------------------===//

FailureOr<LossExpression> mlir::binade::importer::parseLoss(Location loc,
                                                            StringRef text) {
  LossExpression loss;
  auto [head, rest] = text.split('(');
  loss.kind = head.trim().str();
  SmallVector<StringRef> arguments;
  rest = rest.rtrim();
  bool isCall = rest.consume_back(")");
  rest.split(arguments, ',');
  for (StringRef &argument : arguments)
    argument = argument.trim();
  if (!isCall || arguments.size() < 2 || arguments[0].empty() ||
      arguments[1].empty() ||
      (loss.kind != "cross_entropy" && loss.kind != "mse"))
    return mlir::emitError(loc)
           << "expected loss 'cross_entropy(OUTPUT, INPUT)' or 'mse(OUTPUT, "
              "INPUT)', got "
           << quote(text);
  loss.output = arguments[0].str();
  loss.target = arguments[1].str();
  for (StringRef option : ArrayRef(arguments).drop_front(2)) {
    auto [name, value] = option.split('=');
    int64_t number;
    bool isKnown = loss.kind == "cross_entropy" &&
                   (name.trim() == "axis" || name.trim() == "ignore_index");
    if (!isKnown || value.trim().getAsInteger(10, number))
      return mlir::emitError(loc)
             << "loss " << quote(text) << " has the option " << quote(option)
             << "; cross_entropy takes axis=N and ignore_index=N";
    if (name.trim() == "axis")
      loss.axis = number;
    else
      loss.ignoreIndex = number;
  }
  return loss;
}

/// The default class axis is the last one of matrices and sequences and the
/// second one of images.
static int64_t getClassAxis(const LossExpression &loss, int64_t rank) {
  int64_t axis = loss.axis.value_or(rank <= 3 ? rank - 1 : 1);
  return axis < 0 ? axis + rank : axis;
}

FailureOr<RankedTensorType>
mlir::binade::importer::getTargetType(Location loc, const LossExpression &loss,
                                      RankedTensorType output) {
  if (!isa<FloatType>(output.getElementType()))
    return mlir::emitError(loc)
           << "loss of output " << quote(loss.output) << ", whose type is "
           << output << "; expected floating-point elements";
  if (loss.kind == "mse")
    return output;
  int64_t rank = output.getRank(), axis = getClassAxis(loss, rank);
  if (rank < 2 || axis < 0 || axis >= rank)
    return mlir::emitError(loc)
           << "cross_entropy needs an output with a class axis, but "
           << quote(loss.output) << " is " << output << " and the axis is "
           << loss.axis.value_or(axis);
  SmallVector<int64_t> shape(output.getShape());
  shape.erase(shape.begin() + axis);
  return RankedTensorType::get(shape, IntegerType::get(loc.getContext(), 64));
}

Value mlir::binade::importer::buildLoss(ImplicitLocOpBuilder &b,
                                        const LossExpression &loss,
                                        Value output, Value target) {
  auto type = cast<RankedTensorType>(output.getType());
  if (loss.kind == "mse") {
    Value difference = SubOp::create(b, output, target);
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    Value square = MulOp::create(b, difference, difference);
    if (!axes.empty())
      square = ReduceMeanOp::create(b, square, axes);
    return buildCast(b, square, b.getF32Type());
  }
  Value labels = flatten(b, target);
  auto entropy = CrossEntropyOp::create(
      b, flattenRows(b, output, getClassAxis(loss, type.getRank())), labels,
      loss.ignoreIndex, PrecisionAttr());
  return buildMean(b, entropy.getLosses(), labels, loss.ignoreIndex);
}
