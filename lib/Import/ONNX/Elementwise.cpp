//===- Elementwise.cpp - One element in, one element out ------------------===//

#include "OpTable.h"
#include "mlir/Dialect/Traits.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

//===----------------------------------------------------------------------===//
// Broadcasting
//===----------------------------------------------------------------------===//

Value mlir::binade::importer::broadcastTo(ImplicitLocOpBuilder &b, Value value,
                                          ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  // Equal elements are a constant of the full shape: nothing is copied then.
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(getElements(value)))
    return ConstantOp::create(b, splat.resizeSplat(type.clone(shape)));
  auto axes = llvm::to_vector(
      llvm::seq<int64_t>(shape.size() - type.getRank(), shape.size()));
  return buildBroadcast(b, value, axes, shape);
}

static FailureOr<SmallVector<int64_t>> getCommonShape(Node &node,
                                                      ArrayRef<Value> values) {
  SmallVector<int64_t> shape;
  for (Value value : values) {
    SmallVector<int64_t> wider;
    if (!OpTrait::util::getBroadcastedShape(
            shape, cast<RankedTensorType>(value.getType()).getShape(), wider))
      return node.emitError() << "cannot broadcast " << values.front().getType()
                              << " and " << value.getType() << " to one shape";
    shape = wider;
  }
  return shape;
}

FailureOr<SmallVector<Value>>
mlir::binade::importer::broadcastInputs(Node &node, unsigned first) {
  SmallVector<Value> values = node.getInputs();
  values.erase(values.begin(), values.begin() + first);
  Type element = getElementTypeOrSelf(values.front().getType());
  for (Value value : values)
    if (getElementTypeOrSelf(value.getType()) != element)
      return node.emitError()
             << "expected inputs of one element type, got "
             << values.front().getType() << " and " << value.getType();
  FailureOr<SmallVector<int64_t>> shape = getCommonShape(node, values);
  if (failed(shape))
    return failure();
  for (Value &value : values)
    value = broadcastTo(node.b, value, *shape);
  return values;
}

LogicalResult mlir::binade::importer::requireFloats(Node &node,
                                                    unsigned index) {
  if (node.hasFloats(index))
    return success();
  return node.emitError() << "expected floating-point elements, got "
                          << node.getType(index);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::importer::importIdentity(Node &node) {
  return node.setResult(node.getInput(0));
}

LogicalResult mlir::binade::importer::importNeg(Node &node) {
  if (node.hasFloats(0))
    return importUnary<NegOp>(node);
  Value zero = buildSplat(node.b, node.getType(0), 0.0);
  return node.setResult(SubOp::create(node.b, zero, node.getInput(0)));
}

LogicalResult mlir::binade::importer::importAbs(Node &node) {
  if (node.hasFloats(0))
    return importUnary<AbsOp>(node);
  Value x = node.getInput(0);
  Value zero = buildSplat(node.b, x.getType(), 0.0);
  return node.setResult(
      MaxOp::create(node.b, x, SubOp::create(node.b, zero, x)));
}

/// Integer quotients truncate; only shape arithmetic has them.
LogicalResult mlir::binade::importer::importDiv(Node &node) {
  if (node.hasFloats(0))
    return importBinary<DivOp>(node);
  return importIntegerQuotient(node);
}

LogicalResult mlir::binade::importer::importPow(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  Value base = node.getInput(0), exponent = node.getInput(1);
  exponent = buildCast(node.b, exponent, node.getElement(0));
  FailureOr<SmallVector<int64_t>> shape =
      getCommonShape(node, {base, exponent});
  if (failed(shape))
    return failure();
  return node.setResult(PowOp::create(node.b, broadcastTo(node.b, base, *shape),
                                      broadcastTo(node.b, exponent, *shape)));
}

LogicalResult mlir::binade::importer::importClip(Node &node) {
  Value x = node.getInput(0);
  for (unsigned index : {1u, 2u}) {
    if (!node.hasInput(index))
      continue;
    if (node.getRank(index) != 0 ||
        node.getElement(index) != node.getElement(0))
      return node.emitError() << "expected a bound of type "
                              << node.getType(0).clone(ArrayRef<int64_t>())
                              << ", got " << node.getType(index);
    Value bound = broadcastTo(node.b, node.getInput(index), node.getShape(0));
    x = index == 1 ? Value(MaxOp::create(node.b, x, bound))
                   : Value(MinOp::create(node.b, x, bound));
  }
  return node.setResult(x);
}

LogicalResult mlir::binade::importer::importGelu(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  StringRef word = node.getString("approximate", "none");
  std::optional<Approximation> approximate = symbolizeApproximation(word);
  if (!approximate)
    return node.emitError() << "expected approximate to be 'none' or 'tanh', "
                            << "got " << quote(word);
  return node.setResult(
      GeluOp::create(node.b, node.getInput(0), *approximate, PrecisionAttr()));
}

//===----------------------------------------------------------------------===//
// Comparison, logic, selection, casts
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::importer::importComparison(Node &node,
                                                       Comparison comparison) {
  FailureOr<SmallVector<Value>> sides = broadcastInputs(node);
  if (failed(sides))
    return failure();
  return node.setResult(
      CompareOp::create(node.b, sides->front(), sides->back(), comparison));
}

LogicalResult mlir::binade::importer::importNot(Node &node) {
  return node.setResult(NotOp::create(node.b, node.getInput(0)));
}

LogicalResult mlir::binade::importer::importWhere(Node &node) {
  if (!node.getElement(0).isInteger(1))
    return node.emitError()
           << "expected a condition of bool, got " << node.getType(0);
  FailureOr<SmallVector<Value>> sides = broadcastInputs(node, 1);
  if (failed(sides))
    return failure();
  FailureOr<SmallVector<int64_t>> shape =
      getCommonShape(node, {node.getInput(0), sides->front()});
  if (failed(shape))
    return failure();
  auto broadcast = [&](Value value) {
    return broadcastTo(node.b, value, *shape);
  };
  return node.setResult(SelectOp::create(node.b, broadcast(node.getInput(0)),
                                         broadcast(sides->front()),
                                         broadcast(sides->back())));
}

static LogicalResult castTo(Node &node, Type element) {
  // Both matter only for results in 8 bits, which are not supported.
  (void)node.getInt("saturate", 1);
  (void)node.getString("round_mode", "up");
  Value x = node.getInput(0);
  if (!element.isInteger(1) || node.getElement(0) == element)
    return node.setResult(buildCast(node.b, x, element));
  // What is not zero is true; a cast would keep the lowest bit.
  Value zero = buildSplat(node.b, x.getType(), 0.0);
  Value isZero = CompareOp::create(node.b, x, zero, Comparison::Equal);
  return node.setResult(NotOp::create(node.b, isZero));
}

LogicalResult mlir::binade::importer::importCast(Node &node) {
  int64_t to = node.getInt("to", 0);
  Type element = getElementType(node.b.getContext(), to);
  if (!element)
    return node.emitError() << describeElementType(to);
  return castTo(node, element);
}

LogicalResult mlir::binade::importer::importCastLike(Node &node) {
  return castTo(node, node.getElement(1));
}

/// Only NaN is neither below, equal to nor above anything.
LogicalResult mlir::binade::importer::importIsNaN(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  Value x = node.getInput(0);
  Value isNumber = CompareOp::create(node.b, x, x, Comparison::Equal);
  return node.setResult(NotOp::create(node.b, isNumber));
}

LogicalResult mlir::binade::importer::importIsInf(Node &node) {
  if (failed(requireFloats(node)))
    return failure();
  Value x = node.getInput(0);
  auto is = [&](double value) -> Value {
    return CompareOp::create(node.b, x, buildSplat(node.b, x.getType(), value),
                             Comparison::Equal);
  };
  Value found;
  for (auto [name, value] : {std::pair("detect_negative", -INFINITY),
                             std::pair("detect_positive", INFINITY)})
    if (node.getInt(name, 1))
      found = found ? Value(OrOp::create(node.b, found, is(value))) : is(value);
  return node.setResult(
      found ? found
            : buildSplat(node.b, node.getType(0).clone(node.b.getI1Type()), 0));
}

LogicalResult mlir::binade::importer::importMean(Node &node) {
  FailureOr<SmallVector<Value>> values = broadcastInputs(node);
  if (failed(values) || failed(requireFloats(node)))
    return failure();
  Value sum = values->front();
  for (Value value : ArrayRef(*values).drop_front())
    sum = AddOp::create(node.b, sum, value);
  auto count = static_cast<double>(values->size());
  return node.setResult(
      DivOp::create(node.b, sum, buildSplat(node.b, sum.getType(), count)));
}
