//===- RestoreRecurrent.cpp - Folded weights of LSTM and GRU --------------===//

#include "RestoreRecurrent.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

namespace {
/// Gates that follow each other in PyTorch's tensor and in ONNX's.
struct GateRun {
  int64_t first, count;
};

/// A call of nn.LSTM or nn.GRU: `lstm(x, [h, c], [%p_weight_ih_l0, ...],
/// has_biases, num_layers, dropout, train, bidirectional, batch_first)`.
struct RecurrentCall {
  StringRef op; ///< The operator of its nodes: LSTM or GRU.
  int64_t numGates;
  SmallVector<GateRun> runs; ///< PyTorch's gates in ONNX's order.
  SmallVector<const TorchTensor *> parameters; ///< In PyTorch's order.
  bool hasBiases;
  size_t layers, directions;

  static std::optional<RecurrentCall> parse(const TorchCall &call,
                                            const TorchSignature &signature);
  SmallVector<const TorchTensor *> getParameters(size_t layer, int input) const;
};

class RecurrentRestorer {
public:
  RecurrentRestorer(const RecurrentCall &call, ParameterEditor &editor)
      : call(call), editor(editor) {}

  LogicalResult restore(NodeInput place,
                        ArrayRef<const TorchTensor *> parameters);

private:
  LogicalResult define(ArrayRef<const TorchTensor *> parameters, int folded,
                       ArrayRef<int64_t> shape);
  std::string addNodes(int node, ArrayRef<const TorchTensor *> parameters,
                       int64_t gateSize, ArrayRef<int64_t> shape);

  const RecurrentCall &call;
  ParameterEditor &editor;
};
} // namespace

/// The inputs of ONNX's LSTM and GRU.
enum { kWeight = 1, kRecurrentWeight = 2, kBias = 3 };

std::optional<RecurrentCall>
RecurrentCall::parse(const TorchCall &call, const TorchSignature &signature) {
  constexpr size_t kParameters = 2, kHasBiases = 3, kLayers = 4,
                   kBidirectional = 7;
  SmallVector<StringRef> arguments = call.split();
  RecurrentCall parsed;
  if (call.op == "lstm.input") {
    // i, f, g, o in PyTorch; i, o, f, c in ONNX.
    parsed.op = "LSTM";
    parsed.numGates = 4;
    parsed.runs = {{0, 1}, {3, 1}, {1, 2}};
  } else if (call.op == "gru.input") {
    // r, z, n in PyTorch; z, r, h in ONNX.
    parsed.op = "GRU";
    parsed.numGates = 3;
    parsed.runs = {{1, 1}, {0, 1}, {2, 1}};
  } else {
    return std::nullopt;
  }
  if (arguments.size() <= kBidirectional ||
      arguments[kLayers].getAsInteger(10, parsed.layers))
    return std::nullopt;
  parsed.hasBiases = arguments[kHasBiases] == "True";
  parsed.directions = arguments[kBidirectional] == "True" ? 2 : 1;
  TorchCall list;
  list.arguments = arguments[kParameters];
  for (StringRef value : list.getValues()) {
    const TorchTensor *tensor = signature.findPlaceholder(value);
    if (!tensor || !tensor->isParameter)
      return std::nullopt;
    parsed.parameters.push_back(tensor);
  }
  size_t each = parsed.hasBiases ? 4 : 2;
  if (parsed.parameters.size() != each * parsed.layers * parsed.directions)
    return std::nullopt;
  return parsed;
}

/// Returns the parameters whose elements `input` of the node of `layer` has.
SmallVector<const TorchTensor *> RecurrentCall::getParameters(size_t layer,
                                                              int input) const {
  size_t each = hasBiases ? 4 : 2;
  SmallVector<const TorchTensor *> found;
  for (size_t direction = 0; direction < directions; ++direction) {
    size_t first = (layer * directions + direction) * each;
    if (input != kBias) {
      found.push_back(parameters[first + (input == kWeight ? 0 : 1)]);
    } else if (hasBiases) {
      found.push_back(parameters[first + 2]);
      found.push_back(parameters[first + 3]);
    }
  }
  return found;
}

/// Adds the parameters, each of shape `shape`. Copies their elements from the
/// initializer `folded`, and restores PyTorch's order of gates.
LogicalResult
RecurrentRestorer::define(ArrayRef<const TorchTensor *> parameters, int folded,
                          ArrayRef<int64_t> shape) {
  FailureOr<std::vector<char>> bytes = editor.readBytes(folded);
  if (failed(bytes))
    return failure();
  size_t size = bytes->size() / parameters.size(), gate = size / call.numGates;
  const char *from = bytes->data();
  for (const TorchTensor *parameter : parameters) {
    std::string own(size, '\0');
    for (auto [first, count] : call.runs) {
      std::copy_n(from, count * gate, own.data() + first * gate);
      from += count * gate;
    }
    if (failed(editor.define(parameter->target, folded, shape, own)))
      return failure();
  }
  return success();
}

static void setInt(NodeProto &node, StringRef name, int64_t value) {
  ::onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name.str());
  attribute.set_type(::onnx::AttributeProto::INT);
  attribute.set_i(value);
}

/// Adds nodes that compute a tensor of `shape` from the parameters. Returns its
/// name.
std::string
RecurrentRestorer::addNodes(int node, ArrayRef<const TorchTensor *> parameters,
                            int64_t gateSize, ArrayRef<int64_t> shape) {
  std::string axes = editor.addIntegers(0);
  SmallVector<std::string> slices;
  for (const TorchTensor *parameter : parameters)
    for (auto [first, count] : call.runs) {
      std::string start = editor.addIntegers(first * gateSize);
      std::string end = editor.addIntegers((first + count) * gateSize);
      slices.push_back(
          editor.addNode(node, "Slice", {parameter->target, start, end, axes})
              .output(0));
    }
  NodeProto &joined = editor.addNode(node, "Concat", slices);
  setInt(joined, "axis", 0);
  std::string rows = joined.output(0);
  return editor.addNode(node, "Reshape", {rows, editor.addIntegers(shape)})
      .output(0);
}

/// Makes `place` read a value computed from the parameters instead of an
/// initializer, unless that has another shape.
LogicalResult
RecurrentRestorer::restore(NodeInput place,
                           ArrayRef<const TorchTensor *> parameters) {
  int folded = *editor.findRead(place);
  const TensorProto &tensor = editor.get(folded);
  SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  bool isBias = place.input == kBias;
  if (parameters.empty() || shape.size() != (isBias ? 2 : 3) ||
      shape[0] != static_cast<int64_t>(call.directions))
    return success();
  int64_t each = parameters.size() / call.directions;
  if (shape[1] % (each * call.numGates))
    return success();
  SmallVector<int64_t> own = {shape[1] / each};
  own.append(shape.begin() + 2, shape.end());
  if (failed(define(parameters, folded, own)))
    return failure();
  editor.replace(
      place, addNodes(place.node, parameters, own[0] / call.numGates, shape));
  return success();
}

LogicalResult mlir::binade::restoreRecurrent(Model &model,
                                             const TorchSignature &signature,
                                             ParameterEditor &editor) {
  for (const TorchCallNodes &group :
       groupTorchCalls(std::as_const(model).getGraph())) {
    std::optional<RecurrentCall> call =
        RecurrentCall::parse(group.call, signature);
    if (!call)
      continue;
    SmallVector<int> layers;
    for (int index : group.nodes)
      if (editor.getNode(index).op_type() == call->op)
        layers.push_back(index);
    if (layers.size() != call->layers)
      continue;
    RecurrentRestorer restorer(*call, editor);
    for (auto [layer, index] : llvm::enumerate(layers))
      for (int input : {kWeight, kRecurrentWeight, kBias}) {
        NodeInput place{index, input};
        if (editor.getNode(index).input_size() > input &&
            editor.findRead(place) &&
            failed(restorer.restore(place, call->getParameters(layer, input))))
          return failure();
      }
  }
  return success();
}
