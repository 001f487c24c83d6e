//===- ControlFlow.cpp - If, Loop, Scan -----------------------------------===//
//
// A step has no branches, and its loops are as long for every batch: the branch
// is chosen at import, and the body of a loop stands there as often as it runs.
//
//===----------------------------------------------------------------------===//

#include "Body.h"
#include "OpTable.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// The one integer or bool of a constant.
static FailureOr<int64_t> readNumber(Node &node, Value value, StringRef what) {
  DenseElementsAttr elements = getElements(value);
  if (!elements)
    return node.emitUnsupported()
           << "the " << what << " depends on the data; it has to be known "
           << "when the model is imported";
  if (!isa<IntegerType>(elements.getElementType()) ||
      elements.getNumElements() != 1)
    return node.emitError() << "expected one integer or bool as " << what
                            << ", got " << elements.getType();
  return getInteger(*elements.getValues<APInt>().begin(),
                    elements.getElementType());
}

static FailureOr<int64_t> readNumber(Node &node, unsigned input,
                                     StringRef what) {
  if (failed(node.requireConstant(input, what)))
    return failure();
  return readNumber(node, node.getInput(input), what);
}

LogicalResult mlir::binade::importer::importIf(Node &node) {
  FailureOr<int64_t> condition = readNumber(node, 0, "condition");
  if (failed(condition))
    return failure();
  // The other branch is not read at all.
  (void)node.findAttribute("then_branch");
  (void)node.findAttribute("else_branch");
  Body branch(node, *condition ? "then_branch" : "else_branch");
  if (failed(branch.readGraph()))
    return failure();
  auto outputs = branch.unroll({}, *condition ? "then" : "else");
  if (failed(outputs))
    return failure();
  if (outputs->size() != node.getNumOutputs())
    return node.emitError() << "has " << node.getNumOutputs()
                            << " outputs, its branch " << outputs->size();
  for (auto [index, value] : llvm::enumerate(*outputs))
    node.setOutput(index, value);
  return success();
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {
/// An output that gets one more part from each run.
struct Stack {
  int64_t axis = 0;
  bool isReverse = false;
  SmallVector<Value> parts;
};
} // namespace

/// `parts` behind one another along a new axis; of none, as output `index` of
/// `body` is declared.
static FailureOr<Value> joinStack(Node &node, Body &body, unsigned index,
                                  Stack &stack) {
  ImplicitLocOpBuilder &b = node.b;
  SmallVector<Value> &parts = stack.parts;
  RankedTensorType type;
  if (parts.empty()) {
    FailureOr<RankedTensorType> declared = body.getDeclaredType(index);
    if (failed(declared))
      return failure();
    type = *declared;
  } else {
    type = cast<RankedTensorType>(parts.front().getType());
  }
  FailureOr<int64_t> axis = node.normalizeAxis(stack.axis, type.getRank() + 1);
  if (failed(axis))
    return failure();
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin() + *axis, 1);
  for (Value &part : parts) {
    if (part.getType() != type)
      return node.emitUnsupported() << "stacks tensors of other types: " << type
                                    << " and " << part.getType();
    part = buildReshape(b, part, shape);
  }
  if (parts.size() == 1)
    return parts.front();
  shape[*axis] = parts.size();
  if (parts.empty())
    return buildSplat(b, type.clone(shape), 0.0);
  if (stack.isReverse)
    std::reverse(parts.begin(), parts.end());
  return Value(
      ConcatOp::create(b, type.clone(shape), parts, *axis, PrecisionAttr()));
}

/// Puts `results` of one run onto their stacks.
static LogicalResult pushResults(Node &node,
                                 MutableArrayRef<NamedValue> results,
                                 MutableArrayRef<Stack> stacks) {
  for (auto [result, stack] : llvm::zip_equal(results, stacks)) {
    if (!result.tensor)
      return node.emitUnsupported() << "expected what is stacked to be tensors";
    stack.parts.push_back(result.tensor);
  }
  return success();
}

static LogicalResult setOutputs(Node &node, Body &body, unsigned first,
                                ArrayRef<NamedValue> carried,
                                MutableArrayRef<Stack> stacks) {
  for (auto [index, value] : llvm::enumerate(carried))
    node.setOutput(index, value);
  for (auto [index, stack] : llvm::enumerate(stacks)) {
    unsigned output = carried.size() + index;
    if (!node.hasOutput(output))
      continue;
    FailureOr<Value> joined = joinStack(node, body, first + output, stack);
    if (failed(joined))
      return failure();
    node.setOutput(output, *joined);
  }
  return success();
}

/// The body gets its number, the condition and what is carried; it returns the
/// condition, what is carried, and parts of what is stacked.
LogicalResult mlir::binade::importer::importLoop(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  Body body(node, "body");
  if (failed(body.readGraph()))
    return failure();
  FailureOr<int64_t> most = std::numeric_limits<int64_t>::max(), goesOn = 1;
  if (node.hasInput(0))
    most = readNumber(node, 0, "trip count");
  if (node.hasInput(1))
    goesOn = readNumber(node, 1, "condition");
  if (failed(most) || failed(goesOn))
    return failure();
  SmallVector<NamedValue> carried;
  for (unsigned index = 2; index < node.getNumInputs(); ++index)
    carried.push_back(node.getNamedInput(index));
  if (body.getNumOutputs() < carried.size() + 1)
    return node.emitError()
           << "carries " << carried.size() << " values, its body returns "
           << body.getNumOutputs() << " with the condition";
  SmallVector<Stack> stacks(body.getNumOutputs() - 1 - carried.size());
  auto scalar = [&](Type element, int64_t value) -> NamedValue {
    auto type = RankedTensorType::get({}, element);
    return {ConstantOp::create(b, DenseElementsAttr::get(
                                      type, b.getIntegerAttr(element, value))),
            std::nullopt};
  };
  for (int64_t run = 0; *goesOn && run < *most; ++run) {
    SmallVector<NamedValue> inputs = {scalar(b.getI64Type(), run),
                                      scalar(b.getI1Type(), 1)};
    llvm::append_range(inputs, carried);
    auto results = body.unroll(inputs, Twine(run));
    if (failed(results))
      return failure();
    goesOn = readNumber(node, results->front().tensor, "next condition");
    if (failed(goesOn))
      return failure();
    auto returned = MutableArrayRef(*results).drop_front();
    carried.assign(returned.begin(), returned.begin() + carried.size());
    if (failed(pushResults(node, returned.drop_front(carried.size()), stacks)))
      return failure();
  }
  return setOutputs(node, body, 1, carried, stacks);
}

/// The body gets what is carried and an entry of each tensor that is scanned.
LogicalResult mlir::binade::importer::importScan(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  Body body(node, "body");
  if (failed(body.readGraph()))
    return failure();
  int64_t scanned = node.getInt("num_scan_inputs", 0);
  int64_t inputs = node.getNumInputs();
  bool isLegal = 1 <= scanned && scanned <= inputs;
  int64_t states = isLegal ? inputs - scanned : 0;
  if (!isLegal || body.getNumOutputs() < states)
    return node.emitError() << "scans " << scanned << " of " << inputs
                            << " inputs, and its body has "
                            << body.getNumOutputs() << " outputs";
  int64_t stacked = body.getNumOutputs() - states;
  auto read = [&](StringRef name,
                  int64_t count) -> FailureOr<SmallVector<int64_t>> {
    SmallVector<int64_t> values = node.getInts(name);
    if (values.empty())
      values.assign(count, 0);
    if (static_cast<int64_t>(values.size()) != count)
      return node.emitError() << "expected " << count << " integers as "
                              << quote(name) << ", got " << values.size();
    return values;
  };
  auto axes = read("scan_input_axes", scanned),
       directions = read("scan_input_directions", scanned),
       outputAxes = read("scan_output_axes", stacked),
       outputDirections = read("scan_output_directions", stacked);
  if (failed(axes) || failed(directions) || failed(outputAxes) ||
      failed(outputDirections))
    return failure();
  int64_t length = -1;
  for (int64_t i = 0; i < scanned; ++i) {
    unsigned input = states + i;
    FailureOr<int64_t> axis =
        node.normalizeAxis((*axes)[i], node.getRank(input));
    if (failed(axis))
      return failure();
    (*axes)[i] = *axis;
    int64_t own = node.getShape(input)[*axis];
    if (length >= 0 && own != length)
      return node.emitError()
             << "scans axes of " << length << " and of " << own << " entries";
    length = own;
  }
  SmallVector<NamedValue> carried;
  for (int64_t i = 0; i < states; ++i)
    carried.push_back(node.getNamedInput(i));
  SmallVector<Stack> stacks;
  for (int64_t i = 0; i < stacked; ++i)
    stacks.push_back({(*outputAxes)[i], (*outputDirections)[i] != 0, {}});
  for (int64_t run = 0; run < length; ++run) {
    SmallVector<NamedValue> inputs = carried;
    for (int64_t i = 0; i < scanned; ++i) {
      unsigned input = states + i;
      int64_t place = (*directions)[i] ? length - 1 - run : run;
      SmallVector<int64_t> shape(node.getShape(input));
      shape.erase(shape.begin() + (*axes)[i]);
      Value entry = buildSlice(b, node.getInput(input), (*axes)[i], place, 1);
      inputs.push_back({buildReshape(b, entry, shape), std::nullopt});
    }
    auto results = body.unroll(inputs, Twine(run));
    if (failed(results))
      return failure();
    carried.assign(results->begin(), results->begin() + states);
    if (failed(pushResults(node, MutableArrayRef(*results).drop_front(states),
                           stacks)))
      return failure();
  }
  return setOutputs(node, body, 0, carried, stacks);
}
