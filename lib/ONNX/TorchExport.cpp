//===- TorchExport.cpp - What PyTorch's exporter recorded -----------------===//

#include "binade/ONNX/TorchExport.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::binade;

template <typename Proto>
static StringRef findEntry(const Proto &proto, StringRef key) {
  for (const auto &entry : proto.metadata_props())
    if (StringRef(entry.key()) == key)
      return entry.value();
  return {};
}

StringRef mlir::binade::findMetadata(const ::onnx::NodeProto &node,
                                     StringRef key) {
  return findEntry(node, key);
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

/// Adds what the signature says about a value: its kind, such as `USER_INPUT`,
/// its name in the traced program, and in the module if it is a tensor of that.
void TorchSignature::add(bool isInput, StringRef kind, StringRef name,
                         StringRef target) {
  if (kind.starts_with("USER_"))
    boundaries.insert(name);
  if (!isInput || target.empty())
    return;
  targets.try_emplace(target, tensors.size());
  placeholders.try_emplace(name, tensors.size());
  tensors.push_back({kind.starts_with("PARAMETER"), name.str(), target.str()});
}

/// Returns the text between `before` and the next quote in `text`.
static StringRef findQuoted(StringRef text, StringRef before) {
  size_t start = text.find(before);
  return start == StringRef::npos
             ? StringRef()
             : text.substr(start + before.size()).split('\'').first;
}

/// Parses lines such as `p_fc_weight: PARAMETER target='fc.weight'` and
/// `tokens: USER_INPUT`, which PyTorch writes from 2.6 on.
void TorchSignature::parseLines(StringRef text) {
  auto [inputs, outputs] = text.split("# outputs");
  for (StringRef part : {inputs, outputs})
    for (StringRef line : llvm::split(part, '\n')) {
      auto [name, kind] = line.trim().split(": ");
      add(part == inputs, kind, name, findQuoted(kind, "target='"));
    }
}

/// Parses records such as `InputSpec(kind=<InputKind.PARAMETER: 2>, arg=
/// TensorArgument(name='p_fc_weight'), target='fc.weight', persistent=None)`,
/// which PyTorch 2.5 writes; those of outputs have `OutputKind`.
void TorchSignature::parseRecords(StringRef text) {
  auto [inputs, outputs] = text.split("output_specs=");
  for (StringRef part : {inputs, outputs}) {
    SmallVector<StringRef> records;
    part.split(records, "putSpec(kind=<");
    for (StringRef record : ArrayRef(records).drop_front())
      add(part == inputs, record.split("putKind.").second,
          findQuoted(record, "name='"), findQuoted(record, "target='"));
  }
}

std::optional<TorchSignature>
TorchSignature::read(const ::onnx::GraphProto &graph) {
  StringRef text =
      findEntry(graph, "pkg.torch.export.ExportedProgram.graph_signature");
  if (text.empty())
    return std::nullopt;
  TorchSignature signature;
  if (text.contains("InputSpec("))
    signature.parseRecords(text);
  else
    signature.parseLines(text);
  return signature;
}

const TorchTensor *TorchSignature::findTarget(StringRef name) const {
  auto found = targets.find(name);
  return found == targets.end() ? nullptr : &tensors[found->second];
}

const TorchTensor *TorchSignature::findPlaceholder(StringRef name) const {
  auto found = placeholders.find(name);
  return found == placeholders.end() ? nullptr : &tensors[found->second];
}

FoldedValues mlir::binade::readFoldedValues(const ::onnx::GraphProto &graph) {
  FoldedValues folded;
  for (const auto &value : graph.value_info()) {
    // A list of names, as Python prints it: ['fc.weight', 'val_3'].
    StringRef names =
        findEntry(value, "pkg.onnxscript.optimizer.folded_from").trim("[]");
    for (StringRef name : llvm::split(names, ", "))
      if (!name.empty())
        folded[value.name()].push_back(
            name.trim(name.starts_with("\"") ? '"' : '\''));
  }
  return folded;
}

bool mlir::binade::isTorchScript(const ::onnx::ModelProto &model) {
  const ::onnx::GraphProto &graph = model.graph();
  // ONNX Runtime's training tools change such files, and list parameters.
  if (llvm::any_of(model.opset_import(), [](const auto &set) {
        return set.domain() == "com.microsoft";
      }))
    return false;
  return model.producer_name() == "pytorch" && !TorchSignature::read(graph) &&
         llvm::any_of(graph.node(), [](const ::onnx::NodeProto &node) {
           return StringRef(node.name()).starts_with("/");
         });
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

StringRef mlir::binade::getTracedFunction(StringRef value) {
  auto [function, number] = value.rsplit('_');
  return !number.empty() && llvm::all_of(number, llvm::isDigit) ? function
                                                                : value;
}

TorchCall mlir::binade::getTorchCall(const ::onnx::NodeProto &node) {
  StringRef line = findMetadata(node, "pkg.torch.onnx.fx_node").trim();
  if (!line.consume_front("%"))
    return {};
  TorchCall call;
  call.result = line.split(' ').first;
  line.split("[num_users=").second.consumeInteger(10, call.users);
  auto [target, rest] = line.split("[target=").second.split("](args = (");
  if (target.consume_front("torch.ops.aten."))
    call.op = target;
  call.arguments = rest.take_front(rest.rfind("), kwargs = "));
  return call;
}

std::vector<TorchCallNodes>
mlir::binade::groupTorchCalls(const ::onnx::GraphProto &graph) {
  std::vector<TorchCallNodes> groups;
  llvm::StringMap<size_t> indices;
  for (auto [index, node] : llvm::enumerate(graph.node())) {
    TorchCall call = getTorchCall(node);
    if (call.result.empty())
      continue;
    auto [entry, isNew] = indices.try_emplace(call.result, groups.size());
    if (isNew)
      groups.push_back({call, {}});
    groups[entry->second].nodes.push_back(static_cast<int>(index));
  }
  return groups;
}

SmallVector<StringRef> TorchCall::split() const {
  SmallVector<StringRef> parts;
  int depth = 0;
  size_t start = 0;
  for (auto [index, character] : llvm::enumerate(arguments)) {
    depth += StringRef("([{").contains(character);
    depth -= StringRef(")]}").contains(character);
    if (character != ',' || depth > 0)
      continue;
    parts.push_back(arguments.slice(start, index).trim());
    start = index + 1;
  }
  if (StringRef last = arguments.substr(start).trim(); !last.empty())
    parts.push_back(last);
  return parts;
}

SmallVector<StringRef> TorchCall::getValues() const {
  SmallVector<StringRef> values;
  for (size_t start = arguments.find('%'); start != StringRef::npos;
       start = arguments.find('%', start + 1))
    values.push_back(arguments.substr(start + 1).take_while([](char character) {
      return llvm::isAlnum(character) || character == '_';
    }));
  return values;
}

/// Returns the last scope but one of `['', 'encoder', 'encoder.fc', 'linear']`:
/// the last one is the op itself.
static StringRef getInnermostScope(StringRef scopes) {
  SmallVector<StringRef> parts;
  scopes.trim("[]").split(parts, ", ");
  if (parts.size() < 2)
    return {};
  StringRef scope = parts[parts.size() - 2];
  return scope.trim(scope.starts_with("\"") ? '"' : '\'');
}

std::optional<std::string>
mlir::binade::getModulePath(const ::onnx::NodeProto &node) {
  if (StringRef scopes = findMetadata(node, "pkg.torch.onnx.name_scopes");
      !scopes.empty()) {
    StringRef scope = getInnermostScope(scopes);
    // PyTorch 2.5 names submodules as attributes of a local: L['self'].encoder.
    return (scope.starts_with("L['") ? scope.split("'].").second : scope).str();
  }
  // TorchScript: "/encoder/layers.1/linear1/MatMul".
  StringRef name = node.name();
  if (!name.consume_front("/"))
    return std::nullopt;
  if (!name.contains('/'))
    return std::string();
  SmallVector<StringRef> scopes, parts;
  name.rsplit('/').first.split(scopes, '/');
  // A child of nn.Sequential repeats its path: "/stem/stem.0/Conv".
  for (StringRef scope : scopes) {
    StringRef child = scope;
    if (!parts.empty() && child.consume_front(parts.back()) &&
        child.starts_with("."))
      parts.pop_back();
    parts.push_back(scope);
  }
  return llvm::join(parts, ".");
}

llvm::StringMap<std::string>
mlir::binade::findTiedParameters(const ::onnx::GraphProto &graph,
                                 const TorchSignature &signature) {
  struct Place {
    StringRef module, op, parameter;
    size_t argument;
  };
  constexpr Place kPlaces[] = {
      {"torch.nn.modules.sparse.Embedding", "embedding.default", "weight", 0},
      {"torch.nn.modules.linear.Linear", "linear.default", "weight", 1},
      {"torch.nn.modules.linear.Linear", "linear.default", "bias", 2}};
  llvm::StringMap<std::string> tied;
  for (const ::onnx::NodeProto &node : graph.node()) {
    StringRef module =
        getInnermostScope(findMetadata(node, "pkg.torch.onnx.class_hierarchy"));
    TorchCall call = getTorchCall(node);
    for (const Place &place : kPlaces) {
      SmallVector<StringRef> arguments = call.split();
      if (module != place.module || call.op != place.op ||
          arguments.size() <= place.argument)
        continue;
      StringRef value = arguments[place.argument];
      const TorchTensor *read =
          value.consume_front("%") ? signature.findPlaceholder(value) : nullptr;
      std::string own =
          getModulePath(node).value_or("") + "." + place.parameter.str();
      const TorchTensor *expected = signature.findTarget(own);
      if (read && expected && read != expected && read->isParameter &&
          expected->isParameter)
        tied[own] = read->target;
    }
  }
  return tied;
}
