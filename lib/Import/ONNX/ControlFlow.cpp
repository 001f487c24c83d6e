//===- ControlFlow.cpp - Unrolling of If, Loop and Scan -------------------===//
//
// A compiled step has no branches and no dynamic loops. Conditions and trip
// counts must be constants: the import chooses the branch of an If and unrolls
// the bodies of loops.
//
//===----------------------------------------------------------------------===//

#include "Body.h"
#include "OpTable.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Returns the only element of a constant of integers or bool.
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
  // Mark both attributes as understood; the other branch is not read.
  (void)node.findAttribute("then_branch");
  (void)node.findAttribute("else_branch");
  Body branch(node, *condition ? "then_branch" : "else_branch");
  if (failed(branch.readGraph()))
    return failure();
  auto outputs = branch.unroll({}, *condition ? "then" : "else");
  if (failed(outputs))
    return failure();
  if (outputs->size() != node.getNumOutputs())
    return node.emitError()
           << "has " << node.getNumOutputs() << " outputs, but its branch has "
           << outputs->size();
  for (auto [index, value] : llvm::enumerate(*outputs))
    node.setOutput(index, value);
  return success();
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {
/// An output that is concatenated from one part per iteration.
struct Stack {
  int64_t axis = 0;
  bool isReverse = false;
  SmallVector<Value> parts;
};
} // namespace

/// Concatenates the parts of `stack` along a new axis. Without parts, returns
/// an empty tensor of the type that output `index` of `body` declares.
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
      return node.emitUnsupported()
             << "stacks tensors of different types: " << type << " and "
             << part.getType();
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

/// Appends the `results` of one iteration to their stacks.
static LogicalResult pushResults(Node &node,
                                 MutableArrayRef<NamedValue> results,
                                 MutableArrayRef<Stack> stacks) {
  for (auto [result, stack] : llvm::zip_equal(results, stacks)) {
    if (!result.tensor)
      return node.emitUnsupported()
             << "expected the stacked outputs of the body to be tensors";
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

/// The inputs of the body are the iteration number, the condition and the
/// carried values. Its outputs are the condition, the carried values and a part
/// of each stacked output.
LogicalResult mlir::binade::importer::importLoop(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  Body body(node, "body");
  if (failed(body.readGraph()))
    return failure();
  FailureOr<int64_t> most = std::numeric_limits<int64_t>::max(),
                     keepsRunning = 1;
  if (node.hasInput(0))
    most = readNumber(node, 0, "trip count");
  if (node.hasInput(1))
    keepsRunning = readNumber(node, 1, "condition");
  if (failed(most) || failed(keepsRunning))
    return failure();
  SmallVector<NamedValue> carried;
  for (unsigned index = 2; index < node.getNumInputs(); ++index)
    carried.push_back(node.getNamedInput(index));
  if (body.getNumOutputs() < carried.size() + 1)
    return node.emitError()
           << "carries " << carried.size()
           << " values, but its body returns only " << body.getNumOutputs()
           << ", including the condition";
  SmallVector<Stack> stacks(body.getNumOutputs() - 1 - carried.size());
  auto scalar = [&](Type element, int64_t value) -> NamedValue {
    auto type = RankedTensorType::get({}, element);
    return {ConstantOp::create(b, DenseElementsAttr::get(
                                      type, b.getIntegerAttr(element, value))),
            std::nullopt};
  };
  for (int64_t run = 0; *keepsRunning && run < *most; ++run) {
    SmallVector<NamedValue> inputs = {scalar(b.getI64Type(), run),
                                      scalar(b.getI1Type(), 1)};
    llvm::append_range(inputs, carried);
    auto results = body.unroll(inputs, Twine(run));
    if (failed(results))
      return failure();
    keepsRunning = readNumber(node, results->front().tensor, "next condition");
    if (failed(keepsRunning))
      return failure();
    auto returned = MutableArrayRef(*results).drop_front();
    carried.assign(returned.begin(), returned.begin() + carried.size());
    if (failed(pushResults(node, returned.drop_front(carried.size()), stacks)))
      return failure();
  }
  return setOutputs(node, body, 1, carried, stacks);
}

/// The inputs of the body are the carried values and an entry of each scanned
/// tensor.
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
