//===- Constants.cpp - Ops that are known at import -----------------------===//

#include "Evaluate.h"
#include "OpTable.h"
#include "mlir/Dialect/Traits.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
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
// Constants as such
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
  return node.emitError() << "constants given as " << quote(value.name())
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
    if (node.getType(index) != node.getType(0) || node.getRank(index) != 0)
      return node.emitError()
             << "expected scalars of one type, got " << node.getType(0)
             << " and " << node.getType(index);
    bounds.push_back(unpack(node.getConstant(index)));
  }
  bool isFloat = node.hasFloats(0);
  auto get = [&](const Elements &bound) {
    return isFloat ? bound[0].f : static_cast<double>(bound[0].i);
  };
  double start = get(bounds[0]), step = get(bounds[2]);
  double count = std::ceil((get(bounds[1]) - start) / step);
  if (!(count < 0x1p31) && !(count <= 0))
    return node.emitError() << "has no end: from " << start << " to "
                            << get(bounds[1]) << " in steps of " << step;
  Elements result{node.getType(0).clone({std::max(int64_t(count), int64_t(0))}),
                  {}};
  if (!node.graph.spend(result.type.getNumElements()))
    return node.emitError()
           << "is too long to be computed at import: " << result.type;
  for (int64_t i = 0; i < result.type.getNumElements(); ++i)
    result.numbers.push_back(
        isFloat ? Number{.f = start + i * step}
                : Number{.i = bounds[0][0].i + i * bounds[2][0].i});
  return setConstant(node, pack(result));
}

//===----------------------------------------------------------------------===//
// Functions of constants that the dialect does not have
//===----------------------------------------------------------------------===//

static LogicalResult mapFloats(Node &node, double (*function)(double)) {
  if (failed(requireFloats(node)))
    return failure();
  Elements elements = unpack(node.getConstant(0));
  for (Number &number : elements.numbers)
    number.f = function(number.f);
  return setConstant(node, pack(elements));
}

LogicalResult mlir::binade::importer::importCos(Node &node) {
  return mapFloats(node, std::cos);
}

LogicalResult mlir::binade::importer::importSin(Node &node) {
  return mapFloats(node, std::sin);
}

/// Combines two constants of integers.
static LogicalResult
mapIntegers(Node &node, function_ref<int64_t(int64_t, int64_t)> combine) {
  if (!node.getConstant(0) || !node.getConstant(1) || node.hasFloats(0) ||
      node.getElement(0) != node.getElement(1))
    return node.emitError() << "is supported on integer constants only, got "
                            << node.getType(0) << " and " << node.getType(1);
  SmallVector<int64_t> shape;
  if (!OpTrait::util::getBroadcastedShape(node.getShape(0), node.getShape(1),
                                          shape) ||
      !node.graph.spend(ShapedType::getNumElements(shape)))
    return node.emitError() << "cannot combine " << node.getType(0) << " and "
                            << node.getType(1);
  Elements lhs = broadcast(unpack(node.getConstant(0)), shape);
  Elements rhs = broadcast(unpack(node.getConstant(1)), shape);
  Elements result{lhs.type, {}};
  for (int64_t i = 0; i < lhs.type.getNumElements(); ++i) {
    if (rhs[i].i == 0)
      return node.emitError() << "divides by zero";
    result.numbers.push_back({.i = combine(lhs[i].i, rhs[i].i)});
  }
  return setConstant(node, pack(result));
}

LogicalResult mlir::binade::importer::importIntegerQuotient(Node &node) {
  return mapIntegers(node, [](int64_t lhs, int64_t rhs) {
    return rhs == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(lhs))
                     : lhs / rhs;
  });
}

LogicalResult mlir::binade::importer::importMod(Node &node) {
  bool hasSignOfDividend = node.getInt("fmod", 0);
  return mapIntegers(node, [&](int64_t lhs, int64_t rhs) {
    int64_t rest = rhs == -1 ? 0 : lhs % rhs;
    bool isOther = rest != 0 && (rest < 0) != (rhs < 0);
    return isOther && !hasSignOfDividend ? rest + rhs : rest;
  });
}

LogicalResult mlir::binade::importer::importTrilu(Node &node) {
  RankedTensorType type = node.getType(0);
  if (type.getRank() < 2)
    return node.emitError() << "expected a matrix, got " << type;
  int64_t diagonal = 0;
  if (node.hasInput(1)) {
    FailureOr<SmallVector<int64_t>> k = node.getIntegers(1, "k");
    if (failed(k) || k->size() != 1)
      return failure();
    diagonal = k->front();
  }
  bool isUpper = node.getInt("upper", 1);
  if (!node.graph.spend(type.getNumElements()))
    return node.emitError()
           << "is too large to be computed at import: " << type;
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

LogicalResult mlir::binade::importer::reduceIntegers(
    Node &node, ArrayRef<int64_t> axes, ArrayRef<int64_t> shape,
    function_ref<int64_t(int64_t, int64_t)> combine) {
  if (!node.getConstant(0))
    return node.emitError() << "of integers is supported on constants only, "
                            << "got " << node.getType(0);
  Elements from = unpack(node.getConstant(0));
  if (from.type.getNumElements() == 0)
    return node.emitError() << "of no elements is not supported";
  SmallVector<int64_t> kept, strides = computeStrides(from.type.getShape());
  for (auto [axis, size] : llvm::enumerate(from.type.getShape()))
    kept.push_back(llvm::is_contained(axes, axis) ? 1 : size);
  SmallVector<int64_t> keptStrides = computeStrides(kept);
  std::vector<std::optional<int64_t>> sums(ShapedType::getNumElements(kept));
  for (int64_t i = 0; i < from.type.getNumElements(); ++i) {
    SmallVector<int64_t> index = delinearize(i, strides);
    for (int64_t axis : axes)
      index[axis] = 0;
    std::optional<int64_t> &sum = sums[linearize(index, keptStrides)];
    sum = sum ? combine(*sum, from[i].i) : from[i].i;
  }
  Elements result{from.type.clone(shape), {}};
  for (std::optional<int64_t> sum : sums)
    result.numbers.push_back({.i = *sum});
  return setConstant(node, pack(result));
}
