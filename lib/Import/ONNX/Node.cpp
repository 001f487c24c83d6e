//===- Node.cpp - One ONNX node during its import -------------------------===//

#include "Node.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;
using ::onnx::AttributeProto;

DenseElementsAttr mlir::binade::importer::getElements(Value value) {
  auto constant = value ? value.getDefiningOp<ConstantOp>() : nullptr;
  return constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                  : DenseElementsAttr();
}

Node::Node(Graph &graph, const ::onnx::NodeProto &proto, unsigned index)
    : b(UnknownLoc::get(graph.getContext()), graph.getContext()), graph(graph),
      proto(proto), name(graph.getQualified(getNodeName(proto, index))),
      loc(graph.getModel().getLoc(proto, name)), outputs(proto.output_size()) {
  b.setLoc(NameLoc::get(StringAttr::get(graph.getContext(), name)));
  b.setInsertionPoint(graph.getFunction().front().getTerminator());
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

unsigned Node::getNumInputs() const { return proto.input_size(); }

StringRef Node::getInputName(unsigned index) const {
  return proto.input(index);
}

bool Node::hasInput(unsigned index) const {
  return index < getNumInputs() && !proto.input(index).empty();
}

Value Node::getInput(unsigned index) const {
  return hasInput(index) ? graph.lookup(proto.input(index)) : Value();
}

SmallVector<Value> Node::getInputs() const {
  SmallVector<Value> inputs;
  for (unsigned index = 0; index < getNumInputs(); ++index)
    inputs.push_back(getInput(index));
  return inputs;
}

RankedTensorType Node::getType(unsigned index) const {
  return cast<RankedTensorType>(getInput(index).getType());
}

NamedValue Node::getNamedInput(unsigned index) const {
  const NamedValue *value =
      hasInput(index) ? graph.find(proto.input(index)) : nullptr;
  return value ? *value : NamedValue();
}

FailureOr<ArrayRef<Value>> Node::getSequence(unsigned index) const {
  const NamedValue *value = graph.find(proto.input(index));
  if (value && value->sequence)
    return ArrayRef<Value>(*value->sequence);
  return emitError() << "expected " << quote(getInputName(index))
                     << " to be a sequence of tensors";
}

DenseElementsAttr Node::getConstant(unsigned index) const {
  return getElements(getInput(index));
}

LogicalResult Node::requireConstant(unsigned index, StringRef what) {
  if (getConstant(index))
    return success();
  return emitUnsupported()
         << what << " " << quote(getInputName(index))
         << " depends on the data; it has to be known when the "
            "model is imported";
}

FailureOr<SmallVector<int64_t>> Node::getIntegers(unsigned index,
                                                  StringRef what) {
  if (failed(requireConstant(index, what)))
    return failure();
  DenseElementsAttr elements = getConstant(index);
  if (!isa<IntegerType>(elements.getElementType()))
    return emitError() << "expected " << what << " to be integers, got "
                       << elements.getType();
  if (failed(checkCount(elements.getNumElements(), kMaxNumbers, what)))
    return failure();
  SmallVector<int64_t> numbers;
  for (const APInt &number : elements.getValues<APInt>())
    numbers.push_back(getInteger(number, elements.getElementType()));
  return numbers;
}

FailureOr<SmallVector<int64_t>> Node::getGivenIntegers(unsigned index,
                                                       StringRef name) {
  if (hasInput(index))
    return getIntegers(index, name);
  if (hasAttribute(name))
    return getInts(name);
  return emitError() << "has no " << name;
}

FailureOr<SmallVector<int64_t>> Node::getWholeNumbers(unsigned index,
                                                      StringRef what) {
  if (!hasFloats(index))
    return getIntegers(index, what);
  if (failed(requireConstant(index, what)) ||
      failed(checkCount(getType(index).getNumElements(), kMaxNumbers, what)))
    return failure();
  SmallVector<int64_t> numbers;
  for (const APFloat &number : getConstant(index).getValues<APFloat>()) {
    APSInt whole(64, /*isUnsigned=*/false);
    bool isExact;
    number.convertToInteger(whole, APFloat::rmTowardZero, &isExact);
    numbers.push_back(whole.getExtValue());
  }
  return numbers;
}

FailureOr<int64_t> Node::normalizeAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return emitError() << "axis " << axis << " is outside of a tensor of rank "
                       << rank;
  return axis < 0 ? axis + rank : axis;
}

FailureOr<SmallVector<int64_t>> Node::normalizeAxes(ArrayRef<int64_t> axes,
                                                    int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t axis : axes) {
    FailureOr<int64_t> normal = normalizeAxis(axis, rank);
    if (failed(normal))
      return failure();
    if (llvm::is_contained(result, *normal))
      return emitError() << "names axis " << axis << " twice";
    result.push_back(*normal);
  }
  llvm::sort(result);
  return result;
}

LogicalResult Node::checkCount(int64_t count, int64_t most,
                               StringRef what) const {
  if (count <= most)
    return success();
  return emitUnsupported() << "has " << count << " elements for " << what
                           << "; at most " << most << " are expanded at import";
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const AttributeProto *Node::findAttribute(StringRef name) {
  for (const AttributeProto &attribute : proto.attribute())
    if (attribute.name() == name) {
      understood.push_back(attribute.name());
      return &attribute;
    }
  return nullptr;
}

const AttributeProto *Node::findTyped(StringRef name, int type) {
  auto print = [](int number) {
    return AttributeProto::AttributeType_Name(
        static_cast<AttributeProto::AttributeType>(number));
  };
  const AttributeProto *attribute = findAttribute(name);
  if (!attribute || attribute->type() == type)
    return attribute;
  if (wrongAttribute.empty())
    wrongAttribute = "attribute " + quote(name) + " is of type " +
                     print(attribute->type()) + ", expected " + print(type);
  return nullptr;
}

int64_t Node::getInt(StringRef name, int64_t byDefault) {
  const AttributeProto *attribute = findTyped(name, AttributeProto::INT);
  return attribute ? attribute->i() : byDefault;
}

double Node::getFloat(StringRef name, float byDefault) {
  const AttributeProto *attribute = findTyped(name, AttributeProto::FLOAT);
  if (attribute && std::isnan(attribute->f()) && wrongAttribute.empty())
    wrongAttribute = "attribute " + quote(name) + " is not a number (NaN)";
  return attribute ? attribute->f() : byDefault;
}

StringRef Node::getString(StringRef name, StringRef byDefault) {
  const AttributeProto *attribute = findTyped(name, AttributeProto::STRING);
  return attribute ? StringRef(attribute->s()) : byDefault;
}

SmallVector<int64_t> Node::getInts(StringRef name,
                                   ArrayRef<int64_t> byDefault) {
  const AttributeProto *attribute = findTyped(name, AttributeProto::INTS);
  if (!attribute)
    return SmallVector<int64_t>(byDefault);
  return {attribute->ints().begin(), attribute->ints().end()};
}

SmallVector<double> Node::getFloats(StringRef name) {
  const AttributeProto *attribute = findTyped(name, AttributeProto::FLOATS);
  if (!attribute)
    return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

SmallVector<StringRef> Node::getStrings(StringRef name) {
  const AttributeProto *attribute = findTyped(name, AttributeProto::STRINGS);
  if (!attribute)
    return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

LogicalResult Node::checkAttributes() {
  if (!wrongAttribute.empty())
    return emitError() << wrongAttribute;
  for (const AttributeProto &attribute : proto.attribute())
    if (!llvm::is_contained(understood, attribute.name()))
      return emitError() << "attribute " << quote(attribute.name())
                         << " is not known in opset " << getOpset();
  return success();
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

unsigned Node::getNumOutputs() const { return proto.output_size(); }

StringRef Node::getOutputName(unsigned index) const {
  return proto.output(index);
}

bool Node::hasOutput(unsigned index) const {
  return index < getNumOutputs() && !proto.output(index).empty();
}

void Node::setOutput(unsigned index, NamedValue value) {
  if (index < outputs.size())
    outputs[index] = std::move(value);
}

LogicalResult Node::refuseOutputs(unsigned first, StringRef why) {
  for (unsigned index = first; index < getNumOutputs(); ++index)
    if (hasOutput(index) && graph.isUsed(proto.output(index)))
      return emitUnsupported()
             << "output " << quote(proto.output(index)) << " is "
             << "used; " << why;
  return success();
}
