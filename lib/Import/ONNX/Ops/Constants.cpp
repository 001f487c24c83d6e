//===- Constants.cpp - Import of constants --------------------------------===//

#include "../Evaluate.h"
#include "../OpTable.h"
#include "Indexing.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;
using ::onnx::AttributeProto;

static LogicalResult setConstant(Node &node, DenseElementsAttr value) {
  return node.setResult(ConstantOp::create(node.b, value));
}

static LogicalResult setIntegers(Node &node, ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get(shape, node.b.getI64Type());
  return setConstant(node, DenseElementsAttr::get(type, values));
}

//===----------------------------------------------------------------------===//
// Constant
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::importer::importConstant(Node &node) {
  if (node.getProto().attribute_size() != 1)
    return node.emitError() << "expected one attribute with the value, got "
                            << node.getProto().attribute_size();
  const AttributeProto &value = node.getProto().attribute(0);
  (void)node.findAttribute(value.name());
  OpBuilder &b = node.b;
  auto number = static_cast<int64_t>(value.ints_size());
  if (value.name() == "value" && value.has_t()) {
    FailureOr<TypedAttr> elements =
        node.graph.getTensors().readElements(node.getErrorLoc(), value.t());
    if (failed(elements))
      return failure();
    return node.setResult(ConstantOp::create(node.b, *elements));
  }
  if (value.name() == "value_int")
    return setIntegers(node, {}, value.i());
  if (value.name() == "value_ints")
    return setIntegers(node, number,
                       ArrayRef(value.ints().data(), value.ints().size()));
  if (value.name() == "value_float")
    return setConstant(
        node, DenseElementsAttr::get(RankedTensorType::get({}, b.getF32Type()),
                                     value.f()));
  if (value.name() == "value_floats")
    return setConstant(
        node, DenseElementsAttr::get(
                  RankedTensorType::get(value.floats_size(), b.getF32Type()),
                  ArrayRef(value.floats().data(), value.floats().size())));
  return node.emitUnsupported() << "constants given as " << quote(value.name())
                                << " are not supported";
}

LogicalResult mlir::binade::importer::importConstantOfShape(Node &node) {
  FailureOr<SmallVector<int64_t>> shape = node.getIntegers(0, "shape");
  if (failed(shape))
    return failure();
  TypedAttr value = node.b.getF32FloatAttr(0.0);
  if (const AttributeProto *attribute = node.findAttribute("value")) {
    FailureOr<TypedAttr> elements = node.graph.getTensors().readElements(
        node.getErrorLoc(), attribute->t());
    if (failed(elements))
      return failure();
    auto dense = cast<DenseElementsAttr>(*elements);
    if (dense.getNumElements() != 1)
      return node.emitError()
             << "expected a value of one element, got " << dense.getType();
    value = cast<TypedAttr>(*dense.getValues<Attribute>().begin());
  }
  FailureOr<RankedTensorType> type =
      getTensorType(node.getErrorLoc(), *shape, value.getType());
  if (failed(type))
    return failure();
  return setConstant(node, DenseElementsAttr::get(*type, Attribute(value)));
}

/// Builds a matrix with 1 along diagonal `k` and 0 elsewhere.
LogicalResult mlir::binade::importer::importEyeLike(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  int64_t k = node.getInt("k", 0);
  Type element = node.getElement(0);
  if (node.hasAttribute("dtype"))
    element = getElementType(b.getContext(), node.getInt("dtype", 0));
  if (!element)
    return node.emitUnsupported()
           << describeElementType(node.getInt("dtype", 0));
  RankedTensorType type = node.getType(0).clone(element);
  constexpr int64_t kMax = int64_t(1) << 48;
  if (type.getRank() != 2 || k < -kMax || k > kMax)
    return node.emitUnsupported()
           << "expected a matrix and one of its diagonals, "
           << "got " << node.getType(0) << " and " << k;
  Value row = buildPlaces(b, type, 0), column = buildPlaces(b, type, 1);
  Value shift = buildSplat(b, row.getType(), static_cast<double>(k));
  Value isOn = CompareOp::create(b, AddOp::create(b, row, shift), column,
                                 Comparison::Equal);
  return node.setResult(SelectOp::create(b, isOn, buildSplat(b, type, 1.0),
                                         buildSplat(b, type, 0.0)));
}

LogicalResult mlir::binade::importer::importShape(Node &node) {
  ArrayRef<int64_t> shape = node.getShape(0);
  int64_t rank = shape.size();
  auto clamp = [&](int64_t axis) {
    return std::clamp(axis < 0 ? axis + rank : axis, int64_t(0), rank);
  };
  int64_t start = clamp(node.getInt("start", 0));
  int64_t end = std::max(clamp(node.getInt("end", rank)), start);
  return setIntegers(node, end - start, shape.slice(start, end - start));
}

LogicalResult mlir::binade::importer::importSize(Node &node) {
  return setIntegers(node, {}, node.getType(0).getNumElements());
}

LogicalResult mlir::binade::importer::importRange(Node &node) {
  SmallVector<Elements> bounds;
  for (unsigned index : {0u, 1u, 2u}) {
    // Function bodies of ONNX pass tensors of one element instead of scalars.
    if (node.getElement(index) != node.getElement(0) ||
        node.getType(index).getNumElements() != 1)
      return node.emitError()
             << "expected bounds of one element and one type, got "
             << node.getType(0) << " and " << node.getType(index);
    if (failed(node.requireConstant(index, "bound")))
      return failure();
    bounds.push_back(unpack(node.getConstant(index)));
  }
  bool isFloat = node.hasFloats(0);
  auto get = [&](const Elements &bound) {
    return isFloat ? bound[0].f : static_cast<double>(bound[0].i);
  };
  double start = get(bounds[0]), step = get(bounds[2]);
  double count = std::ceil((get(bounds[1]) - start) / step);
  if (!(count < 0x1p31) && !(count <= 0))
    return node.emitUnsupported() << "has no end: from " << start << " to "
                                  << get(bounds[1]) << " in steps of " << step;
  Elements result{node.getType(0).clone({int64_t(std::max(count, 0.0))}), {}};
  if (!node.graph.spend(result.type.getNumElements()))
    return node.emitUnsupported()
           << "is too long to be computed at import: " << result.type;
  for (int64_t i = 0; i < result.type.getNumElements(); ++i)
    result.numbers.push_back(
        isFloat ? Number{.f = start + i * step}
                : Number{.i = static_cast<int64_t>(
                             static_cast<uint64_t>(bounds[0][0].i) +
                             static_cast<uint64_t>(i) * bounds[2][0].i)});
  return setConstant(node, pack(result));
}

/// Builds input 0 with zeros on the other side of `diagonal`, which counts from
/// the main diagonal to the right.
static Value buildTriangle(Node &node, int64_t diagonal, bool isUpper) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  Value row = buildPlaces(b, type, type.getRank() - 2);
  Value column = buildPlaces(b, type, type.getRank() - 1);
  // A diagonal beyond this limit keeps all elements, or none.
  int64_t most = int64_t(1) << 48;
  Value start = buildSplat(
      b, row.getType(), static_cast<double>(std::clamp(diagonal, -most, most)));
  Value isKept = CompareOp::create(b, column, AddOp::create(b, row, start),
                                   isUpper ? Comparison::GreaterEqual
                                           : Comparison::LessEqual);
  return SelectOp::create(b, isKept, node.getInput(0),
                          buildSplat(b, type, 0.0));
}

LogicalResult mlir::binade::importer::importTrilu(Node &node) {
  RankedTensorType type = node.getType(0);
  if (type.getRank() < 2)
    return node.emitError() << "expected a matrix, got " << type;
  int64_t diagonal = 0;
  if (node.hasInput(1)) {
    FailureOr<SmallVector<int64_t>> k = node.getIntegers(1, "k");
    if (failed(k))
      return failure();
    if (k->size() != 1)
      return node.emitError() << "expected one diagonal, got [" << *k << "]";
    diagonal = k->front();
  }
  bool isUpper = node.getInt("upper", 1);
  if (!node.getConstant(0) || !node.graph.spend(type.getNumElements()))
    return node.setResult(buildTriangle(node, diagonal, isUpper));
  Elements from = unpack(node.getConstant(0)), result{type, {}};
  int64_t rows = type.getDimSize(type.getRank() - 2),
          columns = type.getDimSize(type.getRank() - 1);
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    int64_t offset = i % columns - i / columns % rows;
    bool isKept = isUpper ? offset >= diagonal : offset <= diagonal;
    result.numbers.push_back(isKept ? from[i] : Number{.i = 0});
  }
  return setConstant(node, pack(result));
}
