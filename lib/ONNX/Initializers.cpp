//===- Initializers.cpp - Parameters, buffers and constants ---------------===//

#include "binade/ONNX/Initializers.h"
#include "binade/Container/JoinFirst.h"
#include "binade/Container/Suggest.h"
#include "binade/ONNX/Order.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::TensorProto;

void TensorGroup::add(RankedTensorType type) {
  ++tensors;
  elements += type.getNumElements();
  bytes += getBytes(type);
}

Initializers::Initializers(const Model &model, const Metadata &metadata)
    : model(model), metadata(metadata),
      producer(metadata.isVersioned || metadata.trainable
                   ? Producer::Other
                   : getProducer(model.getProto())) {}

LogicalResult Initializers::collect(const llvm::StringSet<> &used,
                                    const Dimensions &dimensions,
                                    TensorReader &reader, TensorGroup &unused) {
  auto isListed = [&](StringRef name) {
    return metadata.trainable && metadata.trainable->contains(name);
  };
  for (auto [index, proto] : llvm::enumerate(model.getGraph().initializer())) {
    if (!used.contains(proto.name()) &&
        !getElementType(model.getContext(), proto.data_type()))
      continue;
    FailureOr<RankedTensorType> type =
        reader.getType(getLoc(proto.name()), proto);
    if (failed(type))
      return failure();
    // Tensors that the metadata name as trained or frozen are part of the state
    // of a run, even if the graph does not use them.
    if (!used.contains(proto.name()) && !isListed(proto.name()) &&
        !metadata.frozen.contains(proto.name())) {
      if (!model.isReplaced(proto.name()))
        unused.add(*type);
      unread.insert(proto.name());
      continue;
    }
    Tensor &tensor = tensors.emplace_back();
    tensor.name = proto.name();
    tensor.type = *type;
    tensor.proto = &proto;
    tensor.range = model.getRawData(index);
    tensor.isBuffer = statistics.contains(tensor.name);
    tensor.isSetting = settings.contains(tensor.name);
    tensor.isNotParameter = metadata.hasSignature && !isListed(tensor.name);
    tensor.isTrained = tensor.isTrainable() &&
                       (metadata.trainable ? isListed(tensor.name)
                                           : isTrainedByDefault(proto));
    tensor.isFrozen =
        tensor.isTrainable() && metadata.frozen.contains(tensor.name);
  }
  for (const auto &input : model.getGraph().input()) {
    if (!metadata.initial.contains(input.name()))
      continue;
    FailureOr<RankedTensorType> type = dimensions.getType(model, input);
    if (failed(type))
      return failure();
    if (!isa<FloatType>(type->getElementType()))
      return mlir::emitError(getLoc(input.name()))
             << "has a rule for its initial value, but holds " << *type;
    Tensor &tensor = tensors.emplace_back();
    tensor.name = input.name();
    tensor.type = *type;
    tensor.isBuffer = statistics.contains(tensor.name);
    tensor.isTrained =
        tensor.isTrainable() && (!metadata.trainable || isListed(tensor.name));
  }
  return success();
}

LogicalResult Initializers::applyGlobs(ArrayRef<std::string> globs,
                                       StringRef flag,
                                       function_ref<void(Tensor &)> apply) {
  for (const std::string &text : globs) {
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(text);
    if (!pattern)
      return model.emitError() << flag << " " << quote(text) << ": "
                               << llvm::toString(pattern.takeError());
    // An absent parameter is not trained.
    bool matches = flag == "--freeze" &&
                   llvm::any_of(metadata.absent.keys(), [&](StringRef name) {
                     return pattern->match(name);
                   });
    for (Tensor &tensor : tensors)
      if (tensor.isTrainable() && pattern->match(tensor.name)) {
        matches = true;
        apply(tensor);
      }
    if (!matches)
      return refuseGlob(text, flag, *pattern);
  }
  return success();
}

InFlightDiagnostic
Initializers::refuseGlob(StringRef text, StringRef flag,
                         const llvm::GlobPattern &pattern) const {
  InFlightDiagnostic error = model.emitError();
  error << flag << " " << quote(text)
        << " matches none of the model's floating-point initializers";
  for (const Tensor &tensor : tensors)
    if (pattern.match(tensor.name)) {
      error << ": " << quote(tensor.name) << " is ";
      if (auto node = statistics.find(tensor.name); node != statistics.end())
        error << "a running statistic of node " << quote(node->second)
              << ", which the forward pass updates";
      else if (tensor.isSetting)
        error << "a setting, such as the ratio of a dropout";
      else if (tensor.isNotParameter)
        error << "no parameter of the module";
      else
        error << tensor.type.getElementType();
      return error;
    }
  for (const auto &proto : model.getGraph().initializer())
    if (unread.contains(proto.name()) && pattern.match(proto.name())) {
      error << ": no node reads " << quote(proto.name());
      return error;
    }
  for (const auto &input : model.getGraph().input())
    if (pattern.match(input.name())) {
      error << ": " << quote(input.name()) << " is an input";
      return error;
    }
  std::vector<std::string> names;
  for (const Tensor &tensor : tensors)
    if (tensor.isTrainable())
      names.push_back(tensor.name.str());
  error << ::binade::suggest(text.str(), names);
  return error;
}

LogicalResult Initializers::checkTrainable() const {
  if (!metadata.trainable)
    return success();
  auto refuse = [&](StringRef name) {
    return model.emitError("metadata 'binade.trainable'")
           << "names " << quote(name) << ", which ";
  };
  llvm::StringSet<> known;
  for (const Tensor &tensor : tensors) {
    known.insert(tensor.name);
    if (!metadata.trainable->contains(tensor.name) || tensor.isTrainable())
      continue;
    if (auto node = statistics.find(tensor.name); node != statistics.end())
      return refuse(tensor.name)
             << "is a running statistic of node " << quote(node->second);
    if (tensor.isSetting)
      return refuse(tensor.name)
             << "is a setting of a node, such as the ratio of a dropout";
    return refuse(tensor.name) << "is " << tensor.type.getElementType()
                               << "; expected a floating-point type";
  }
  for (const auto &input : model.getGraph().input())
    if (metadata.trainable->contains(input.name()) &&
        !known.contains(input.name()))
      return refuse(input.name())
             << "is an input without an initial value; store an initializer of "
                "that name, or a rule in metadata 'binade.init'";
  return success();
}

/// Whether the op reads the input as an attribute, which has to be known when
/// the model is imported.
static bool isSettingInput(StringRef op, int input) {
  return (op == "Dropout" && input == 1) || (op == "Range") ||
         (op == "Resize" && (input == 1 || input == 2)) ||
         (op == "Upsample" && input == 1);
}

/// Whether the op reads the input as a weight or bias.
static bool isWeightInput(StringRef op, int input) {
  return (op == "MatMul" && input == 1) ||
         ((op == "Gemm" || op == "Conv" || op == "ConvTranspose") &&
          (input == 1 || input == 2)) ||
         ((op == "LSTM" || op == "GRU" || op == "RNN") && input >= 1 &&
          input <= 3) ||
         ((op == "BatchNormalization" || op == "LayerNormalization" ||
           op == "InstanceNormalization" || op == "GroupNormalization" ||
           op == "RMSNormalization") &&
          (input == 1 || input == 2)) ||
         (op == "PRelu" && input == 1);
}

void Initializers::findUses(ArrayRef<unsigned> order) {
  // By the result of a Reshape, the tensor: jax2onnx reshapes the scale and the
  // offset of a group norm before they are multiplied and added.
  llvm::StringMap<StringRef> reshaped;
  for (unsigned index : order) {
    const auto &node = model.getGraph().node(index);
    if (node.op_type() == "BatchNormalization" && node.input_size() == 5)
      for (int input : {3, 4})
        statistics[node.input(input)] = getNodeName(node, index);
    for (auto [input, name] : llvm::enumerate(node.input())) {
      if (isSettingInput(node.op_type(), input))
        settings.insert(name);
      if (isWeightInput(node.op_type(), input))
        weights.insert(name);
      if (node.op_type() == "Gather" && input == 0)
        tables.insert(name);
      if (node.op_type() == "Add" || node.op_type() == "Mul") {
        operands.insert(name);
        if (auto tensor = reshaped.find(name); tensor != reshaped.end())
          operands.insert(tensor->second);
      }
    }
    if (node.op_type() == "Reshape")
      reshaped[node.output(0)] = node.input(0);
    findUsesInBodies(node);
  }
}

/// Finds the weights that the body of a loop reads: by their own names, or as
/// values that the loop passes on.
void Initializers::findUsesInBodies(const ::onnx::NodeProto &loop) {
  for (const auto &attribute : loop.attribute()) {
    if (!attribute.has_g())
      continue;
    const ::onnx::GraphProto &body = attribute.g();
    for (const auto &node : body.node()) {
      for (auto [input, name] : llvm::enumerate(node.input())) {
        if (isWeightInput(node.op_type(), input))
          weights.insert(name);
        if (node.op_type() == "Add" || node.op_type() == "Mul")
          operands.insert(name);
      }
      findUsesInBodies(node);
    }
    if (loop.op_type() != "Loop" && loop.op_type() != "Scan")
      continue;
    int count = std::min(loop.input_size(), body.input_size());
    for (int input = 0; input < count; ++input)
      for (llvm::StringSet<> *uses : {&weights, &operands})
        if (uses->contains(body.input(input).name()))
          uses->insert(loop.input(input));
  }
}

bool Initializers::isTrainedByDefault(const TensorProto &proto) const {
  if (proto.data_location() == TensorProto::EXTERNAL)
    return true;
  StringRef name = proto.name();
  switch (producer) {
  case Producer::Other:
    return false;
  case Producer::TorchScript:
    return (!name.contains(':') && !name.contains('/')) ||
           weights.contains(name);
  case Producer::TF2ONNX:
    // "net/fc/MatMul/ReadVariableOp:0". Some variables are only reshaped:
    // "net/norm/Reshape_1:0".
    return name.contains("/ReadVariableOp") || weights.contains(name) ||
           name.ends_with(".input") ||
           (isVectorOperand(proto) && name.contains("/Reshape"));
  case Producer::JAX2ONNX:
    return weights.contains(name) || isVectorOperand(proto) ||
           (tables.contains(name) && proto.dims_size() == 2);
  }
  llvm_unreachable("unknown producer");
}

/// Whether a tensor is added or multiplied, and has at most one axis that is
/// longer than 1, like the scale and the offset of a norm.
bool Initializers::isVectorOperand(const TensorProto &proto) const {
  return operands.contains(proto.name()) && proto.dims_size() > 0 &&
         llvm::count_if(proto.dims(), [](int64_t size) { return size != 1; }) <=
             1;
}

LogicalResult Initializers::applyChoice(const InitializerChoice &choice) {
  auto set = [](bool isTrained, bool isFrozen) {
    return [=](Tensor &tensor) {
      tensor.isTrained = isTrained;
      tensor.isFrozen = isFrozen;
    };
  };
  if (failed(applyGlobs(choice.fold, "--fold", set(false, false))) ||
      failed(applyGlobs(choice.freeze, "--freeze", set(false, true))))
    return failure();
  if (!choice.train.empty())
    for (Tensor &tensor : tensors)
      if (tensor.isTrained)
        set(false, true)(tensor);
  return success(
      succeeded(applyGlobs(choice.train, "--train", set(true, false))) &&
      succeeded(
          applyGlobs(choice.alsoTrain, "--also-train", set(true, false))));
}

LogicalResult
Initializers::classify(ArrayRef<unsigned> order, const llvm::StringSet<> &used,
                       const Dimensions &dimensions, TensorReader &reader,
                       const InitializerChoice &choice, TensorGroup &unused,
                       bool trainsMatrices, bool warns) {
  findUses(order);
  if (failed(collect(used, dimensions, reader, unused)) ||
      (warns && failed(checkTrainable())))
    return failure();
  for (Tensor &tensor : tensors)
    tensor.isTrained |=
        trainsMatrices && tensor.isTrainable() && tensor.type.getRank() >= 2;
  if (failed(applyChoice(choice)))
    return failure();
  bool isSpecified = metadata.trainable || trainsMatrices ||
                     !choice.fold.empty() || !choice.freeze.empty() ||
                     !choice.train.empty() || !choice.alsoTrain.empty();
  if (warns && !isSpecified) {
    warnOfUntrained();
    warnOfAssumed();
  }
  if (warns)
    warnOfShared(findForward(order, choice.lossOutput.empty()
                                        ? StringRef(kLossName)
                                        : StringRef(choice.lossOutput)));
  return success();
}

/// Returns the nodes of `order` that the output `loss` depends on, or all nodes
/// if the graph has no such output. In a graph with gradients, the other nodes
/// are the backward pass.
SmallVector<unsigned> Initializers::findForward(ArrayRef<unsigned> order,
                                                StringRef loss) const {
  if (!llvm::is_contained(llvm::map_range(model.getGraph().output(),
                                          [](const auto &output) {
                                            return StringRef(output.name());
                                          }),
                          loss))
    return SmallVector<unsigned>(order);
  llvm::StringSet<> needed = {loss};
  SmallVector<unsigned> forward;
  for (unsigned index : llvm::reverse(order)) {
    const auto &node = model.getGraph().node(index);
    if (llvm::none_of(node.output(), [&](const std::string &output) {
          return needed.contains(output);
        }))
      continue;
    forward.push_back(index);
    forEachRead(node, [&](const std::string &input) { needed.insert(input); });
  }
  std::reverse(forward.begin(), forward.end());
  return forward;
}

/// Whether all `nodes` are in the module that owns `parameter`, as those that
/// cut "encoder.weight_ih_l0" into its gates: "encoder/Slice_1".
static bool areInItsModule(StringRef parameter, ArrayRef<std::string> nodes) {
  auto [module, name] = parameter.rsplit('.');
  return !name.empty() &&
         llvm::all_of(nodes, [module = module](StringRef node) {
           return node.rsplit('/').first == module && node.contains('/');
         });
}

/// PyTorch's exporter stores parameters with equal initial values once.
/// `binade.export`, which marks its files by a version, stores each.
void Initializers::warnOfShared(ArrayRef<unsigned> forward) const {
  if (metadata.isVersioned || metadata.hasSignature)
    return;
  llvm::StringMap<std::vector<std::string>> readers;
  for (unsigned index : forward) {
    const auto &node = model.getGraph().node(index);
    llvm::StringSet<> seen;
    for (const std::string &input : node.input())
      if (seen.insert(input).second)
        readers[input].push_back(getNodeName(node, index));
  }
  constexpr size_t kShown = 4;
  std::optional<InFlightDiagnostic> warning;
  size_t count = 0;
  for (const Tensor &tensor : tensors) {
    auto found = readers.find(tensor.name);
    if (!tensor.isTrained || found == readers.end() ||
        found->second.size() < 2 || areInItsModule(tensor.name, found->second))
      continue;
    if (count++ >= kShown)
      continue;
    std::vector<std::string> nodes;
    for (const std::string &name : found->second)
      nodes.push_back(quote(name));
    std::string text = "is read by ";
    if (nodes.size() <= kShown) {
      std::string last = nodes.back();
      nodes.pop_back();
      text += ::binade::joinFirst(nodes, kShown) + " and " + last;
    } else {
      text += ::binade::joinFirst(nodes, kShown) + " nodes";
    }
    text += ", and trained as one parameter";
    if (warning)
      warning->attachNote(getLoc(tensor.name)) << text;
    else
      warning.emplace(mlir::emitWarning(getLoc(tensor.name))) << text;
  }
  if (!warning)
    return;
  if (count > kShown)
    warning->attachNote() << "and " << count - kShown << " more initializers";
  warning->attachNote()
      << "exporters store parameters with equal initial values once; "
      << (producer == Producer::TF2ONNX ? "binade.keras.export stores"
          : producer == Producer::JAX2ONNX
              ? "binade.jax.export stores"
              : "torch.onnx.export(..., optimize=False) and binade from-torch "
                "store")
      << " each of them";
}

/// Exporters name parameters after attributes of modules, with dots, and store
/// small ones in the model itself.
void Initializers::warnOfUntrained() const {
  auto isMeant = [](const Tensor &tensor) {
    return tensor.isConstant() && tensor.isTrainable() &&
           tensor.type.getRank() > 0 && tensor.name.contains('.');
  };
  std::vector<std::string> meant;
  for (const Tensor &tensor : tensors)
    if (isMeant(tensor))
      meant.push_back(quote(tensor.name));
  bool trainsOthers =
      llvm::any_of(tensors, [](const Tensor &one) { return one.isTrained; });
  if (meant.empty() || !trainsOthers)
    return;
  InFlightDiagnostic warning =
      mlir::emitWarning(getLoc(llvm::find_if(tensors, isMeant)->name));
  warning << "is not trained";
  constexpr size_t kShown = 4;
  if (meant.size() > 1)
    warning << ", nor " << (meant.size() == 2 ? "is " : "are ")
            << ::binade::joinFirst(std::span(meant).subspan(1), kShown);
  warning << ": stored inside the model file, while without metadata "
             "'binade.trainable' only initializers with external data are "
             "trained; --also-train '*' trains all";
}

void Initializers::warnOfAssumed() const {
  if (producer == Producer::Other)
    return;
  std::vector<std::string> trained, others, computed, folded;
  for (const Tensor &tensor : tensors) {
    bool isComputed = tensor.name.starts_with("onnx::");
    if (tensor.isTrained) {
      trained.push_back(quote(tensor.name));
      if (isComputed)
        computed.push_back(trained.back());
    } else if (tensor.isTrainable()) {
      if (tensor.type.getRank() > 0)
        others.push_back(quote(tensor.name));
      if (isComputed)
        folded.push_back(quote(tensor.name));
    }
  }
  if (trained.empty() && others.empty())
    return;
  constexpr size_t kShown = 4;
  InFlightDiagnostic warning = mlir::emitWarning(model.getLoc());
  warning << "does not say which tensors are parameters; " << trained.size()
          << " are trained";
  if (!trained.empty())
    warning << ": " << ::binade::joinFirst(trained, kShown);
  if (!others.empty() && producer != Producer::TorchScript)
    warning.attachNote() << others.size() << " are not trained: "
                         << ::binade::joinFirst(others, kShown);
  for (StringRef advice : getAdvice(producer))
    warning.attachNote() << advice;
  constexpr llvm::StringLiteral kRemedy =
      "torch.onnx.export(..., dynamo=False, do_constant_folding=False, "
      "training=torch.onnx.TrainingMode.TRAINING) keeps the ";
  if (!computed.empty())
    warning.attachNote()
        << "the exporter computed " << ::binade::joinFirst(computed, kShown)
        << " from parameters, so the module has no tensors of these names; "
        << kRemedy << "parameters";
  if (!folded.empty())
    warning.attachNote()
        << "the exporter computed " << ::binade::joinFirst(folded, kShown)
        << ", which are not trained, although it may have done so from "
           "parameters, such as those of group norm; "
        << kRemedy << "computation";
}

LogicalResult Initializers::checkFinite(TensorReader &reader) const {
  return success(llvm::all_of(tensors, [&](const Tensor &tensor) {
    return !tensor.proto ||
           succeeded(reader.checkFinite(getLoc(tensor.name), *tensor.proto,
                                        /*canBeMask=*/tensor.isConstant()));
  }));
}

void Initializers::warnOfOverlap(const Tensor &tensor, ExternalAttr value) {
  std::map<uint64_t, Occupied> &ranges = occupied[value.getFile()];
  uint64_t begin = value.getOffset(), end = begin + value.getBytes();
  if (begin == end || overlapping.contains(tensor.name))
    return;
  // Known ranges do not overlap each other, so only the two neighbours of this
  // range can overlap it.
  auto next = ranges.lower_bound(begin + 1);
  auto met = next != ranges.end() && next->first < end ? next : ranges.end();
  if (next != ranges.begin() && std::prev(next)->second.end > begin)
    met = std::prev(next);
  if (met == ranges.end()) {
    ranges[begin] = {end, tensor.name};
    return;
  }
  auto [otherBegin, other] = *met;
  // Tensors with the same range are tied.
  if (otherBegin == begin && other.end == end)
    return;
  overlapping.insert(tensor.name);
  mlir::emitWarning(getLoc(tensor.name))
      << "uses bytes " << begin << " to " << end << " of "
      << quote(value.getFile()) << ", which overlap bytes " << otherBegin
      << " to " << other.end << " of " << quote(other.owner)
      << "; each tensor gets its own copy";
}

FailureOr<Initializers::Place> Initializers::locate(TensorReader &reader,
                                                    const Tensor &tensor) {
  FailureOr<TypedAttr> value =
      reader.refer(getLoc(tensor.name), *tensor.proto, tensor.range);
  if (failed(value))
    return failure();
  if (auto external = dyn_cast<ExternalAttr>(*value))
    warnOfOverlap(tensor, external);
  bool canBeTied = tensor.isTrained && isa<ExternalAttr>(*value) &&
                   !model.isCopy(tensor.name) &&
                   tensor.type.getNumElements() > 0;
  StringRef owner = canBeTied
                        ? stored.try_emplace(*value, tensor.name).first->second
                        : tensor.name;
  return Place{*value, owner};
}

FailureOr<std::vector<Initializers::StateTensor>>
Initializers::getStateTensors(TensorReader &reader) {
  std::vector<StateTensor> kept;
  for (const Tensor &tensor : tensors) {
    if (tensor.isConstant())
      continue;
    StringRef owner = tensor.name;
    if (tensor.proto) {
      FailureOr<Place> place = locate(reader, tensor);
      if (failed(place))
        return failure();
      owner = place->owner;
    }
    kept.push_back({tensor.name.str(), tensor.type, owner.str()});
  }
  return kept;
}
