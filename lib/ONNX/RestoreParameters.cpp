//===- RestoreParameters.cpp - Undo what PyTorch's exporter merged --------===//

#include "binade/ONNX/RestoreParameters.h"
#include "ParameterEditor.h"
#include "RestoreFolded.h"
#include "RestoreRecurrent.h"
#include "RestoreRemoved.h"
#include "RestoreScript.h"
#include "RestoreTrainingMode.h"
#include "binade/Container/JoinFirst.h"
#include "binade/ONNX/Producer.h"
#include "binade/ONNX/TorchExport.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

namespace {
/// Restores the parameters of a file with a signature.
class ParameterRestorer {
public:
  ParameterRestorer(Model &model, const TorchSignature &signature,
                    ParameterEditor &editor, ArrayRef<std::string> allowed)
      : model(model), signature(signature), editor(editor),
        folded(readFoldedValues(std::as_const(model).getGraph())),
        allowed(allowed) {}

  LogicalResult restoreCalls();
  LogicalResult checkComplete() const;
  LogicalResult checkFolded() const;

private:
  bool isOptimized() const;
  bool isAllowed(StringRef parameter) const;
  SmallVector<const TorchTensor *> getTensors(const TorchCall &call) const;
  bool isTransposedWeight(const TorchCall &call, NodeInput place) const;
  bool addZeroBias(const TorchCallNodes &group, StringRef bias);
  LogicalResult restore(const TorchCallNodes &group);

  Model &model;
  const TorchSignature &signature;
  ParameterEditor &editor;
  FoldedValues folded;
  /// Globs of parameters that may be missing.
  ArrayRef<std::string> allowed;
};
} // namespace

/// Returns the tensors of the module that `call` reads, in the order in which
/// ONNX's ops take them.
SmallVector<const TorchTensor *>
ParameterRestorer::getTensors(const TorchCall &call) const {
  SmallVector<const TorchTensor *> tensors;
  for (StringRef value : call.getValues())
    if (const TorchTensor *tensor = signature.findPlaceholder(value))
      tensors.push_back(tensor);
  // addmm(bias, x, weight) is Gemm(x, weight, bias).
  StringRef op = call.op.split('.').first;
  bool isBiasFirst = op == "addmm" || op == "addmv" || op == "baddbmm";
  if (isBiasFirst && tensors.size() > 1 &&
      call.split().front() == "%" + tensors.front()->placeholder)
    std::rotate(tensors.begin(), tensors.begin() + 1, tensors.end());
  return tensors;
}

static int64_t getInt(const NodeProto &node, StringRef name,
                      int64_t otherwise) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name)
      return attribute.i();
  return otherwise;
}

/// Whether `place` reads a matrix that can only be the transposed weight of a
/// linear layer.
bool ParameterRestorer::isTransposedWeight(const TorchCall &call,
                                           NodeInput place) const {
  const NodeProto &node = editor.getNode(place.node);
  const TensorProto &tensor = editor.get(*editor.findRead(place));
  return call.op == "linear.default" && place.input == 1 &&
         (node.op_type() == "MatMul" || node.op_type() == "Gemm") &&
         getInt(node, "transB", 0) == 0 && tensor.dims_size() == 2 &&
         !signature.findTarget(tensor.name());
}

/// The exporter removes biases that are zero. Returns whether `bias` was one,
/// and adds it again.
bool ParameterRestorer::addZeroBias(const TorchCallNodes &group,
                                    StringRef bias) {
  for (int index : group.nodes) {
    const NodeProto &node = editor.getNode(index);
    if (node.input_size() != 2 || editor.find(bias))
      continue;
    std::optional<int> weight = editor.findRead({index, 1});
    if (!weight || editor.get(*weight).dims_size() < 2)
      continue;
    const TensorProto &tensor = editor.get(*weight);
    int64_t size;
    if (node.op_type() == "Gemm")
      size = tensor.dims(getInt(node, "transB", 0) ? 0 : 1);
    else if (node.op_type() == "Conv")
      size = tensor.dims(0);
    else if (node.op_type() == "ConvTranspose")
      size = tensor.dims(1) * getInt(node, "group", 1);
    else
      continue;
    editor.addZeroInput(index, bias, size, *weight);
    return true;
  }
  return false;
}

/// Restores the parameters of one call: pairs those that its nodes do not read
/// with the initializers that the nodes read instead.
LogicalResult ParameterRestorer::restore(const TorchCallNodes &group) {
  SmallVector<const TorchTensor *> missing = getTensors(group.call);
  bool hasWeight = missing.size() > 1;
  SmallVector<NodeInput> others;
  for (int index : group.nodes) {
    const NodeProto &node = editor.getNode(index);
    for (int input = 0; input < node.input_size(); ++input) {
      NodeInput place{index, input};
      std::optional<int> read = editor.findRead(place);
      if (!read)
        continue;
      StringRef name = node.input(input);
      auto *found = llvm::find_if(missing, [&](const TorchTensor *tensor) {
        return tensor->target == name;
      });
      if (found != missing.end())
        missing.erase(found);
      else if (signature.findTarget(name) ||
               isTransposedWeight(group.call, place))
        others.push_back(place);
    }
  }
  if (hasWeight && missing.size() == others.size() + 1 &&
      addZeroBias(group, missing.back()->target))
    missing.pop_back();
  if (missing.size() != others.size())
    return success();
  for (auto [tensor, place] : llvm::zip(missing, others))
    if (failed(isTransposedWeight(group.call, place)
                   ? editor.readTransposed(place, tensor->target)
                   : editor.readDirectly(place, tensor->target)))
      return failure();
  return success();
}

LogicalResult ParameterRestorer::restoreCalls() {
  for (const TorchCallNodes &group :
       groupTorchCalls(std::as_const(model).getGraph()))
    if (failed(restore(group)))
      return failure();
  return success();
}

/// Whether a line of the traced program reads a parameter that the file lacks,
/// or a value that no node computes: the exporter's optimizer folded or removed
/// the nodes that did.
bool ParameterRestorer::isOptimized() const {
  const ::onnx::GraphProto &graph = std::as_const(model).getGraph();
  llvm::StringSet<> known;
  for (const auto &input : graph.input())
    known.insert(input.name());
  for (const NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      known.insert(output);
  return llvm::any_of(graph.node(), [&](const NodeProto &node) {
    return llvm::any_of(getTorchCall(node).getValues(), [&](StringRef value) {
      const TorchTensor *tensor = signature.findPlaceholder(value);
      return tensor ? tensor->isParameter && !editor.find(tensor->target)
                    : !known.contains(value) && !signature.isBoundary(value);
    });
  });
}

bool ParameterRestorer::isAllowed(StringRef parameter) const {
  return llvm::any_of(allowed, [&](const std::string &text) {
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(text);
    if (pattern)
      return pattern->match(parameter);
    llvm::consumeError(pattern.takeError());
    return false;
  });
}

LogicalResult ParameterRestorer::checkComplete() const {
  llvm::StringMap<std::string> ties =
      findTiedParameters(std::as_const(model).getGraph(), signature);
  std::vector<std::string> missing, tied;
  size_t count = 0;
  for (const TorchTensor &tensor : signature.getTensors()) {
    count += tensor.isParameter;
    if (!tensor.isParameter || editor.find(tensor.target) ||
        isAllowed(tensor.target))
      continue;
    if (auto tie = ties.find(tensor.target); tie != ties.end())
      tied.push_back(quote(tie->second) + " is also " + quote(tensor.target));
    else
      missing.push_back(quote(tensor.target));
  }
  constexpr size_t kShown = 4;
  if (!tied.empty())
    mlir::emitRemark(model.getLoc()) << "the file stores tied parameters once: "
                                     << ::binade::joinFirst(tied, kShown);
  if (missing.empty())
    return success();
  std::string text =
      std::to_string(missing.size()) + " of the module's " +
      std::to_string(count) + " parameters " +
      (missing.size() == 1 ? "is" : "are") +
      " not in the file: " + ::binade::joinFirst(missing, kShown);
  if (!isOptimized()) {
    mlir::emitRemark(model.getLoc())
        << text << "; the outputs do not depend on "
        << (missing.size() == 1
                ? "it, or it is another name of a tied parameter"
                : "them, or they are other names of tied "
                  "parameters");
    return success();
  }
  InFlightDiagnostic error = model.emitError();
  error << text;
  error.attachNote()
      << "the exporter folded them into constants or merged them "
         "with others; torch.onnx.export(..., optimize=False) "
         "and binade from-torch keep them";
  error.attachNote() << "--freeze NAME accepts that a parameter is missing";
  return error;
}

/// Fails if a node reads a value that the exporter computed from a parameter,
/// as in `alpha * x + (1 - alpha) * y`: such a value does not change while the
/// parameter is trained.
LogicalResult ParameterRestorer::checkFolded() const {
  llvm::MapVector<StringRef, StringRef> constants;
  for (const NodeProto &node : std::as_const(model).getGraph().node())
    for (const std::string &name : node.input()) {
      std::optional<int> read = editor.find(name);
      auto found = folded.find(name);
      if (!read || found == folded.end() ||
          !isa_and_present<FloatType>(getElementType(
              model.getContext(), editor.get(*read).data_type())))
        continue;
      for (StringRef origin : found->second) {
        const TorchTensor *tensor = signature.findTarget(origin);
        if (tensor && tensor->isParameter && !isAllowed(origin))
          constants.try_emplace(origin, found->first());
      }
    }
  if (constants.empty())
    return success();
  std::vector<std::string> pairs;
  for (auto [parameter, constant] : constants)
    pairs.push_back(quote(parameter) + " in " + quote(constant));
  constexpr size_t kShown = 4;
  InFlightDiagnostic error = model.emitError();
  error << "the file has constants that the exporter computed from "
           "parameters: "
        << ::binade::joinFirst(pairs, kShown);
  error.attachNote()
      << "constants do not change while the parameters are trained; "
         "torch.onnx.export(..., optimize=False) and 'binade from-torch' "
         "keep the computation";
  error.attachNote() << "--freeze NAME keeps a parameter as it is";
  return error;
}

/// Returns the layer "net/norm" of "net/norm_2/mul": TensorFlow numbers scopes.
static StringRef getLayer(StringRef name) {
  StringRef scopes = name.rsplit('/').first;
  auto [layer, number] = scopes.rsplit('_');
  return !number.empty() && llvm::all_of(number, llvm::isDigit) ? layer
                                                                : scopes;
}

/// tf2onnx stores variables of different layers once if they have equal values,
/// for example the scales of all norms of a new model. Names show which layer a
/// node belongs to: "net/norm_1/Reshape:0" is read by "net/norm_1/mul".
/// Variables whose elements differ are not equal by coincidence, but shared.
static LogicalResult separateMergedLayers(ParameterEditor &editor) {
  for (int index = 0, end = editor.countNodes(); index < end; ++index) {
    const NodeProto &node = editor.getNode(index);
    if ((node.op_type() != "Mul" && node.op_type() != "Add") ||
        !StringRef(node.name()).contains('/'))
      continue;
    for (int input = 0; input < node.input_size(); ++input) {
      std::optional<int> read = editor.findRead({index, input});
      StringRef name = node.input(input);
      size_t start = name.find("/ReadVariableOp") != StringRef::npos
                         ? name.find("/ReadVariableOp")
                         : name.size();
      StringRef owner = name.take_front(start), rest = name.drop_front(start);
      if (!read || (rest.empty() && !name.contains("/Reshape")) ||
          getLayer(owner) == getLayer(node.name()))
        continue;
      FailureOr<bool> isUniform = editor.isUniform(*read);
      if (failed(isUniform))
        return failure();
      std::string added = (StringRef(node.name()).rsplit('/').first + "/" +
                           owner.rsplit('/').second + rest)
                              .str();
      if (*isUniform && failed(editor.readDirectly({index, input}, added)))
        return failure();
    }
  }
  return success();
}

/// tf2onnx stores the bias of a Keras LSTM, or simple RNN, as the bias of the
/// input, and zeros as that of the state. Trained as one tensor, both would
/// move with the same gradient.
static LogicalResult restoreRecurrentBiases(ParameterEditor &editor) {
  for (int index = 0, end = editor.countNodes(); index < end; ++index) {
    const NodeProto &node = editor.getNode(index);
    constexpr int kBias = 3;
    bool hasOneBias = node.op_type() == "LSTM" || node.op_type() == "RNN";
    if (!hasOneBias || node.input_size() <= kBias)
      continue;
    std::optional<int> bias = editor.findRead({index, kBias});
    if (bias && failed(editor.readFirstHalf(
                    {index, kBias}, editor.get(*bias).name() + ".input")))
      return failure();
  }
  editor.sortAddedNodes();
  return success();
}

LogicalResult mlir::binade::restoreParameters(Model &model,
                                              TensorReader &reader,
                                              ArrayRef<std::string> allowed) {
  // `binade.export` keeps all parameters, and says so by this key.
  for (const auto &entry : model.getProto().metadata_props())
    if (entry.key() == "binade.version")
      return success();
  std::optional<TorchSignature> signature =
      TorchSignature::read(std::as_const(model).getGraph());
  Producer producer = getProducer(model.getProto());
  if (producer == Producer::TF2ONNX) {
    ParameterEditor editor(model, reader);
    if (failed(separateMergedLayers(editor)) ||
        failed(restoreRecurrentBiases(editor)))
      return failure();
  }
  if (!signature && producer != Producer::TorchScript)
    return checkBatchNorm(model, allowed);
  if (signature && failed(restoreRemoved(model, *signature)))
    return failure();
  ParameterEditor editor(model, reader);
  restoreTrainingMode(model);
  if (!signature) {
    LogicalResult restored = restoreScriptParameters(editor);
    editor.sortAddedNodes();
    return restored;
  }
  ParameterRestorer restorer(model, *signature, editor, allowed);
  if (failed(restoreRecurrent(model, *signature, editor)) ||
      failed(restorer.restoreCalls()) ||
      failed(restoreFolded(model, *signature, editor)))
    return failure();
  editor.sortAddedNodes();
  return success(succeeded(restorer.checkComplete()) &&
                 succeeded(restorer.checkFolded()));
}
