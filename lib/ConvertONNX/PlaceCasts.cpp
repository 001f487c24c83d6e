//===- PlaceCasts.cpp - Placement of casts --------------------------------===//

#include "PlaceCasts.h"
#include "QuantizeNodes.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

/// Constants of up to this many elements are copied for each format in which
/// they are read. Copies of finite values are finite, while a cast may
/// overflow.
static constexpr int64_t kCopiedElements = 16 << 10;

namespace {
/// Places the casts of one graph. Values that the graph does not define are
/// looked up in the enclosing graph, which may have them in the wanted type
/// already.
class CastPlacer {
public:
  CastPlacer(PlannedGraph &planned, const CastPlacement &placement,
             StoredFormats &stored, ConvertReport &report, CastPlacer *outer)
      : planned(planned), graph(*planned.graph), types(*planned.types),
        placement(placement), names(placement.names), stored(stored),
        report(report), outer(outer), quantizer(graph, placement.names) {}

  void run();

private:
  /// A name of a value and its type.
  struct Known {
    std::string name;
    int32_t type;
  };
  /// A value that is saved for the backward pass in another format, and its
  /// producer.
  struct SavedValue {
    std::string name;
    const PlannedNode *maker;
  };
  /// A value's name, its type, and the type to which it was rounded before.
  using Key = std::tuple<std::string, int32_t, int32_t>;

  bool isWide(StringRef name) const {
    return types.get(name) == TensorProto::FLOAT;
  }
  static int32_t getWanted(const PlannedNode &node, unsigned input) {
    return node.readsChosen(input)
               ? node.compute
               : PlannedNode::getCarried(node.carriedInputs, input);
  }
  /// Returns the type of an input or output of a subgraph.
  int32_t getCarried(StringRef name) const {
    auto type = planned.carried.find(name);
    return type == planned.carried.end() ? int32_t(TensorProto::FLOAT)
                                         : type->second;
  }

  static void collectWanted(ArrayRef<PlannedNode> nodes,
                            llvm::StringMap<StoredFormat> &wanted);
  void storeNarrow();
  void storeNarrow(TensorProto &tensor, const std::string &name,
                   StoredFormat format, bool isHere);
  void definePorts();
  void readInputs(PlannedNode &node);
  bool keepsOwnType(StringRef name) const;
  Known find(const std::string &name) const;
  std::string findMade(const Key &key) const;
  CastPlacer *findConstant(StringRef name);
  bool isMoved(StringRef name) const {
    return moved.contains(name) || (outer && outer->isMoved(name));
  }
  void retype(NodeProto &node, int32_t type);
  std::string read(const std::string &name, int32_t type);
  std::string readRounded(const std::string &name, int32_t through);
  std::string readQuantized(const std::string &name,
                            const QuantizedInput &format);
  std::string readSaved(const SavedValue &value);
  void noteSaved(const PlannedNode &node);
  SmallVector<Known, 3> define(PlannedNode &node, unsigned output);
  void cast(const std::string &from, const std::string &to, int32_t type,
            const std::string &original);
  std::string makeName(const std::string &name, int32_t type) {
    return names.makeNew(name + "_" + getFormatName(type).str());
  }
  void updateTypes();

  PlannedGraph &planned;
  ::onnx::GraphProto &graph;
  const ElementTypes &types;
  const CastPlacement &placement;
  UniqueNames &names;
  StoredFormats &stored; ///< Stored tensors of the main graph.
  ConvertReport &report;
  /// The placer of the enclosing graph; null for the main graph.
  CastPlacer *outer;
  /// Each value's name and type after its producer's rounding.
  llvm::StringMap<Known> values;
  /// The types of values whose type under their own name changes.
  llvm::StringMap<int32_t> retyped;
  std::map<Key, std::string> made; ///< Names of created values.
  /// The names of dequantized values.
  std::map<std::pair<std::string, QuantizedInput>, std::string> decoded;
  /// Dequantized values that were moved.
  llvm::StringSet<> moved;
  /// Values saved for backward.
  llvm::StringMap<SavedValue> saved;
  llvm::StringMap<const TensorProto *> constants; ///< Small constants.
  llvm::StringSet<> outputs;                      ///< Outputs of a subgraph.
  SmallVector<TensorProto> copies;
  QuantizeNodes quantizer;
};
} // namespace

static int64_t countElements(const TensorProto &tensor) {
  int64_t elements = 1;
  for (int64_t size : tensor.dims())
    elements *= size;
  return elements;
}

/// Returns the f32 tensor of a Constant node, if it is stored in the message;
/// null otherwise.
static TensorProto *getConstant(NodeProto &node) {
  if (node.op_type() != "Constant" || node.output_size() != 1 ||
      node.attribute_size() != 1 || node.attribute(0).name() != "value")
    return nullptr;
  TensorProto *tensor = node.mutable_attribute(0)->mutable_t();
  bool isHere = tensor->data_type() == TensorProto::FLOAT &&
                tensor->data_location() != TensorProto::EXTERNAL;
  return isHere ? tensor : nullptr;
}

/// Whether the value `name` must keep its type, because something other than a
/// node reads it.
bool CastPlacer::keepsOwnType(StringRef name) const {
  return outer ? outputs.contains(name) : placement.outside.contains(name);
}

/// Collects the formats in which nodes, also in subgraphs, read values; type 0
/// means several formats.
void CastPlacer::collectWanted(ArrayRef<PlannedNode> nodes,
                               llvm::StringMap<StoredFormat> &wanted) {
  for (const PlannedNode &node : nodes) {
    for (auto [input, name] : llvm::enumerate(node.node->input())) {
      StoredFormat format;
      format.type = node.getRead(input);
      format.codes = node.getQuantized(input);
      if (format.codes)
        format.type = getOnnxType(format.codes.format.getFormat());
      auto [entry, isNew] = wanted.try_emplace(name, format);
      StoredFormat &known = entry->second;
      if (known.type != format.type || !(known.codes == format.codes))
        known = {};
    }
    for (const PlannedGraph &inner : node.graphs)
      collectWanted(inner.nodes, wanted);
  }
}

/// Stores an f32 tensor in `format`, in which all readers read it. If they read
/// it in several formats, notes small tensors for copies. `isHere`: the data
/// are in the message.
void CastPlacer::storeNarrow(TensorProto &tensor, const std::string &name,
                             StoredFormat format, bool isHere) {
  int32_t type = format.type;
  if (format.codes) {
    if (isHere || (format.codes.hasBands() && tensor.dims_size() > 2))
      return; // Nodes quantize the tensor.
    format.scales = quantizer.addScalar(name + "_scale", 1.0f);
    stored[name] = format;
  } else if (type) {
    values[name] = {name, type};
    retyped[name] = type;
    if (isHere)
      convertConstant(tensor, type);
    else
      stored[name] = {type};
  } else if (countElements(tensor) <= kCopiedElements) {
    constants[name] = &tensor;
  }
}

/// Stores tensors that are read in one narrow format only in that format.
void CastPlacer::storeNarrow() {
  llvm::StringMap<StoredFormat> wanted;
  collectWanted(planned.nodes, wanted);
  llvm::StringSet<> inputs;
  for (const auto &input : graph.input())
    inputs.insert(input.name());
  auto visit = [&](const std::string &name, TensorProto &tensor, bool isHere) {
    if (inputs.contains(name))
      return;
    StoredFormat format = wanted.lookup(name);
    if (keepsOwnType(name) || format.type == TensorProto::FLOAT)
      format = {};
    storeNarrow(tensor, name, format, isHere);
  };
  // External tensors of subgraphs are copied unchanged.
  for (TensorProto &tensor : *graph.mutable_initializer())
    if (tensor.data_type() == TensorProto::FLOAT &&
        !(outer && tensor.data_location() == TensorProto::EXTERNAL))
      visit(tensor.name(), tensor, outer != nullptr);
  for (const PlannedNode &node : planned.nodes)
    if (TensorProto *tensor = getConstant(*node.node))
      visit(node.node->output(0), *tensor, true);
}

void CastPlacer::definePorts() {
  const llvm::StringMap<int32_t> &ports = placement.ports;
  if (outer) {
    for (auto *list : {graph.mutable_input(), graph.mutable_output()})
      for (auto &port : *list) {
        int32_t type = getCarried(port.name());
        if (type == TensorProto::FLOAT)
          continue;
        if (port.type().has_tensor_type())
          port.mutable_type()->mutable_tensor_type()->set_elem_type(type);
        retyped[port.name()] = type;
      }
    for (const auto &input : graph.input())
      if (isWide(input.name()))
        values[input.name()] = {input.name(), getCarried(input.name())};
    return;
  }
  llvm::StringSet<> initialized;
  for (const TensorProto &tensor : graph.initializer())
    initialized.insert(tensor.name());
  for (auto *list : {graph.mutable_input(), graph.mutable_output()})
    for (auto &port : *list) {
      auto type = ports.find(port.name());
      if (type == ports.end())
        continue;
      port.mutable_type()->mutable_tensor_type()->set_elem_type(type->second);
      retyped[port.name()] = type->second;
    }
  for (const auto &input : graph.input()) {
    auto type = ports.find(input.name());
    if (type == ports.end())
      continue;
    values[input.name()] = {input.name(), type->second};
    if (initialized.contains(input.name()))
      stored[input.name()] = {type->second};
  }
}

void CastPlacer::cast(const std::string &from, const std::string &to,
                      int32_t type, const std::string &original) {
  NodeProto &node = *graph.add_node();
  node.set_op_type("Cast");
  node.set_name(names.makeNew("Cast_" + original));
  node.add_input(from);
  node.add_output(to);
  auto &attribute = *node.add_attribute();
  attribute.set_name("to");
  attribute.set_type(::onnx::AttributeProto::INT);
  attribute.set_i(type);
  ++report.casts;
}

CastPlacer::Known CastPlacer::find(const std::string &name) const {
  auto value = values.find(name);
  if (value != values.end())
    return value->second;
  return outer ? outer->find(name) : Known{name, TensorProto::FLOAT};
}

/// Returns the name of a created value; empty if it does not exist.
std::string CastPlacer::findMade(const Key &key) const {
  auto found = made.find(key);
  if (found != made.end())
    return found->second;
  return outer ? outer->findMade(key) : "";
}

/// Returns the placer of the graph with the small constant `name`; null for
/// other values.
CastPlacer *CastPlacer::findConstant(StringRef name) {
  if (constants.contains(name))
    return this;
  return outer ? outer->findConstant(name) : nullptr;
}

/// Returns a name of value `name` with type `type`, adding a cast if needed.
std::string CastPlacer::read(const std::string &name, int32_t type) {
  Known known = find(name);
  if (known.type == type)
    return known.name;
  Key key{name, type, TensorProto::UNDEFINED};
  std::string result = findMade(key);
  if (!result.empty())
    return result;
  result = makeName(name, type);
  CastPlacer *owner = findConstant(name);
  if (!owner) {
    cast(known.name, result, type, name);
    return made[key] = result;
  }
  TensorProto &copy = owner->copies.emplace_back(*owner->constants[name]);
  copy.set_name(result);
  if (owner->outer)
    convertConstant(copy, type);
  else
    stored[result] = {type};
  return owner->made[key] = result;
}

/// Returns a name of value `name` in f32, rounded to `through`.
std::string CastPlacer::readRounded(const std::string &name, int32_t through) {
  if (find(name).type == through)
    return read(name, TensorProto::FLOAT);
  Key key{name, TensorProto::FLOAT, through};
  std::string result = findMade(key);
  if (!result.empty())
    return result;
  std::string narrow = read(name, through);
  result = names.makeNew(narrow + "_f32");
  cast(narrow, result, TensorProto::FLOAT, name);
  return made[key] = result;
}

/// Returns a name of value `name` in f32 after quantization and dequantization.
std::string CastPlacer::readQuantized(const std::string &name,
                                      const QuantizedInput &format) {
  for (const CastPlacer *placer = this; placer; placer = placer->outer)
    if (auto found = placer->decoded.find({name, format});
        found != placer->decoded.end())
      return found->second;
  std::string &result = decoded[{name, format}];
  auto codes = stored.find(name);
  if (codes != stored.end() && codes->second.codes) {
    result = quantizer.dequantize(name, name, codes->second.scales, format);
  } else {
    result = quantizer.quantize(name, read(name, TensorProto::FLOAT), format);
  }
  return result;
}

/// Returns a name of the saved `value` in f32, as the backward pass reads it.
std::string CastPlacer::readSaved(const SavedValue &value) {
  const PlannedNode &maker = *value.maker;
  return maker.saved ? readQuantized(value.name, maker.saved)
                     : readRounded(value.name, maker.savedType);
}

/// Notes saved values. A forward node that passes on a saved value saves the
/// same; backward nodes read the saved value already.
void CastPlacer::noteSaved(const PlannedNode &node) {
  if (node.saved || node.savedType) {
    const std::string &name = node.node->output(0);
    saved[name] = {name, &node};
  } else if (!node.same.empty() && !node.isBackward) {
    if (auto value = saved.find(node.same); value != saved.end()) {
      SavedValue handed = value->second;
      saved[node.node->output(0)] = std::move(handed);
    }
  }
}

/// Returns the names and types of an output in order: as the node computes it,
/// as its readers read it, and as its own name requires. Equal stages are
/// merged.
SmallVector<CastPlacer::Known, 3> CastPlacer::define(PlannedNode &node,
                                                     unsigned output) {
  const std::string name = node.node->output(output);
  bool isChosen = node.makesChosen(output);
  int32_t raw = isChosen ? node.compute
                         : PlannedNode::getCarried(node.carriedOutputs, output);
  int32_t found = isChosen ? node.result : raw;
  int32_t own = found;
  if (keepsOwnType(name)) {
    auto port = placement.ports.find(name);
    bool isPort = !outer && port != placement.ports.end();
    own = isPort ? port->second : getCarried(name);
  }
  SmallVector<Known, 3> stages{{"", raw}};
  for (int32_t type : {found, own})
    if (stages.back().type != type)
      stages.push_back({"", type});
  for (Known &stage : stages)
    stage.name = &stage == &stages.back() ? name : makeName(name, stage.type);
  node.node->set_output(output, stages.front().name);
  values[name] = stages[raw == found ? 0 : 1];
  made[{name, own, TensorProto::UNDEFINED}] = name;
  if (own != TensorProto::FLOAT)
    retyped[name] = own;
  return stages;
}

void CastPlacer::updateTypes() {
  for (auto &value : *graph.mutable_value_info()) {
    auto type = retyped.find(value.name());
    auto codes = outer ? stored.end() : stored.find(value.name());
    if (type != retyped.end())
      value.mutable_type()->mutable_tensor_type()->set_elem_type(type->second);
    else if (codes != stored.end() && codes->second.codes)
      value.mutable_type()->mutable_tensor_type()->set_elem_type(
          codes->second.type);
  }
}

/// Replaces the inputs of the node by values in the formats that it reads.
void CastPlacer::readInputs(PlannedNode &node) {
  for (auto [input, name] : llvm::enumerate(*node.node->mutable_input())) {
    if (!isWide(name))
      continue;
    if (QuantizedInput format = node.getQuantized(input)) {
      name = readQuantized(name, format);
      continue;
    }
    auto value = saved.find(name);
    if (node.isBackward && value != saved.end())
      name = readSaved(value->second);
    int32_t type = getWanted(node, input);
    bool isRounded = node.readsChosen(input) && node.operand != node.compute &&
                     !isMoved(name);
    name = isRounded ? readRounded(name, node.operand) : read(name, type);
  }
}

void CastPlacer::run() {
  if (outer)
    for (const auto &output : graph.output())
      outputs.insert(output.name());
  storeNarrow();
  definePorts();
  for (PlannedNode &node : planned.nodes) {
    readInputs(node);
    for (PlannedGraph &inner : node.graphs)
      CastPlacer(inner, placement, stored, report, this).run();
    noteSaved(node);
    if (node.isDequantized)
      moved.insert(node.node->output(0));
    SmallVector<SmallVector<Known, 3>> outputs;
    for (unsigned output = 0; output < unsigned(node.node->output_size());
         ++output) {
      const std::string &name = node.node->output(output);
      if (isWide(name) && !values.contains(name))
        outputs.push_back(define(node, output));
    }
    report.narrow += node.isNarrow();
    graph.mutable_node()->AddAllocated(node.node.release());
    for (ArrayRef<Known> stages : outputs)
      for (unsigned i = 1; i < stages.size(); ++i)
        cast(stages[i - 1].name, stages[i].name, stages[i].type,
             stages.back().name);
  }
  quantizer.finish();
  for (TensorProto &copy : copies)
    *graph.add_initializer() = std::move(copy);
  updateTypes();
}

void mlir::binade::convert::placeCasts(const CastPlacement &placement,
                                       PlannedGraph graph,
                                       StoredFormats &stored,
                                       ConvertReport &report) {
  CastPlacer(graph, placement, stored, report, nullptr).run();
}
