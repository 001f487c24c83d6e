//===- ScaleGradients.cpp - Loss scaling of f16 gradients -----------------===//
// Gradients are linear in the gradient of the loss, which exporters have folded
// into constants. A value is scaled by scaling operands of its producer (one of
// a product, all of a sum), and so on toward the loss, up to a node that is not
// linear, where a multiplication by the scale is inserted.
//===----------------------------------------------------------------------===//

#include "ScaleGradients.h"
#include "Linear.h"
#include "SkipUpdates.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

//===----------------------------------------------------------------------===//
// The backward pass
//===----------------------------------------------------------------------===//

llvm::BitVector mlir::binade::convert::findBackward(const GraphProto &graph,
                                                    StringRef loss) {
  llvm::BitVector backward(graph.node_size());
  bool hasLoss = llvm::any_of(graph.output(), [&](const auto &output) {
    return output.name() == loss;
  });
  if (!hasLoss)
    return backward;
  llvm::StringMap<unsigned> producers;
  for (auto [index, node] : llvm::enumerate(graph.node()))
    for (const std::string &name : node.output())
      producers[name] = index;
  backward.set();
  SmallVector<std::string> names{loss.str()};
  while (!names.empty()) {
    auto producer = producers.find(names.pop_back_val());
    if (producer == producers.end() || !backward.test(producer->second))
      continue;
    backward.reset(producer->second);
    forEachRead(graph.node(producer->second),
                [&](const std::string &name) { names.push_back(name); });
  }
  return backward;
}

//===----------------------------------------------------------------------===//
// Scaled values
//===----------------------------------------------------------------------===//

namespace {
class GradientScaler {
public:
  GradientScaler(GraphProto &graph, PlannedNodes &nodes, UniqueNames &names,
                 ElementTypes &types, const llvm::StringSet<> &outside)
      : graph(graph), nodes(nodes), names(names), types(types),
        outside(outside), zeros(graph, nodes), slots(nodes.size()) {}

  bool findScaled();
  void rewrite(GradientScale scale, ConvertReport &report);

private:
  void findBackward();
  void findLevels();
  SmallVector<unsigned> chooseSlots(unsigned index) const;
  bool scale(unsigned index, ArrayRef<unsigned> chosen);
  void demand(unsigned index);
  void extend();
  void widenReaders();
  bool readsScaled(unsigned index, unsigned input) const {
    return llvm::is_contained(slots[index], input);
  }
  const std::string &getInput(unsigned index, unsigned input) const {
    return nodes[index].node->input(input);
  }

  void addScale(const GradientScale &scale);
  void addNode(StringRef op, ArrayRef<std::string> inputs,
               const std::string &output, int32_t type = TensorProto::FLOAT);
  std::string multiply(const std::string &value, const std::string &factor,
                       const std::string &result);
  void addScalar(const std::string &name, double value);
  std::string addInteger(const std::string &name, int64_t value);
  std::string findOverflow();
  std::string growScale(const GradientScale &scale, const std::string &found);
  void updateScale(const GradientScale &scale);

  GraphProto &graph;
  PlannedNodes &nodes;
  UniqueNames &names;
  ElementTypes &types;
  const llvm::StringSet<> &outside;
  Zeros zeros;
  llvm::StringMap<unsigned> producers;
  llvm::BitVector backward;
  /// For each value, the depth of the deepest forward value that it depends on.
  /// Gradients depend on values near the loss.
  llvm::StringMap<unsigned> levels;
  /// The scaled inputs of each node with scaled outputs.
  std::vector<SmallVector<unsigned>> slots;
  llvm::StringSet<> scaled;

  /// The updates of a whole training step that keeps the scale as state.
  std::vector<Update> updates;
  PlannedNodes result;
  std::string factor, inverse;
  SmallVector<std::string> unscaled;
};
} // namespace

void GradientScaler::findBackward() {
  backward.resize(nodes.size());
  for (auto [index, node] : llvm::enumerate(nodes)) {
    backward[index] = node.isBackward;
    for (const std::string &name : node.node->output())
      producers[name] = index;
  }
}

void GradientScaler::findLevels() {
  for (auto [index, node] : llvm::enumerate(nodes)) {
    unsigned level = 0;
    for (const std::string &name : node.node->input())
      level = std::max(level, levels.lookup(name));
    for (const std::string &name : node.node->output())
      levels[name] = level + !backward.test(index);
  }
}

/// Returns the inputs to scale so that the outputs are scaled; for a product,
/// one that the backward pass computes. Returns nothing if there are none.
SmallVector<unsigned> GradientScaler::chooseSlots(unsigned index) const {
  const NodeProto &node = *nodes[index].node;
  SmallVector<unsigned> chosen;
  bool makesNumbers = llvm::all_of(node.output(), [&](const auto &name) {
    return name.empty() || types.get(name) == TensorProto::FLOAT;
  });
  if (!makesNumbers)
    return chosen;
  LinearInputs linear = getLinearInputs(node);
  for (unsigned input : linear.inputs)
    if (types.get(node.input(input)) == TensorProto::FLOAT &&
        !zeros.contains(node.input(input)))
      chosen.push_back(input);
  if (!linear.isProduct)
    return chosen;
  std::optional<unsigned> best;
  for (unsigned input : chosen) {
    auto producer = producers.find(node.input(input));
    bool isBackward =
        producer != producers.end() && backward.test(producer->second);
    if (isBackward && (!best || levels.lookup(node.input(input)) >
                                    levels.lookup(node.input(*best))))
      best = input;
  }
  return best ? SmallVector<unsigned>{*best} : SmallVector<unsigned>();
}

/// Marks the outputs of a node as scaled; returns false if they are already.
bool GradientScaler::scale(unsigned index, ArrayRef<unsigned> chosen) {
  if (!slots[index].empty())
    return false;
  slots[index].assign(chosen.begin(), chosen.end());
  for (const std::string &name : nodes[index].node->output())
    scaled.insert(name);
  return true;
}

/// Scales the outputs of node `index`, and what this requires.
void GradientScaler::demand(unsigned index) {
  SmallVector<unsigned> worklist{index};
  while (!worklist.empty()) {
    unsigned node = worklist.pop_back_val();
    SmallVector<unsigned> chosen = chooseSlots(node);
    if (chosen.empty() || !scale(node, chosen))
      continue;
    for (unsigned input : chosen) {
      auto producer = producers.find(getInput(node, input));
      if (producer != producers.end() && backward.test(producer->second))
        worklist.push_back(producer->second);
    }
  }
}

/// Extends scaling to nodes that are linear in values that are already scaled.
void GradientScaler::extend() {
  llvm::StringSet<> read;
  for (auto [index, chosen] : llvm::enumerate(slots))
    for (unsigned input : chosen)
      read.insert(getInput(index, input));
  for (unsigned index : backward.set_bits()) {
    SmallVector<unsigned> chosen = chooseSlots(index);
    bool fits = !chosen.empty() && llvm::all_of(chosen, [&](unsigned input) {
      const std::string &name = getInput(index, input);
      return scaled.contains(name) && read.contains(name);
    });
    if (!fits || !scale(index, chosen))
      continue;
    for (const std::string &name : nodes[index].node->output())
      read.insert(name);
  }
}

/// Lets nodes that read unscaled gradients compute in f32: these gradients are
/// too small for f16.
void GradientScaler::widenReaders() {
  llvm::StringSet<> small;
  for (unsigned index : backward.set_bits()) {
    if (!slots[index].empty())
      continue;
    PlannedNode &node = nodes[index];
    bool isSmall = llvm::any_of(node.node->input(), [&](const auto &name) {
      return scaled.contains(name) || small.contains(name);
    });
    if (!isSmall)
      continue;
    node.letters.clear();
    small.insert(node.node->output().begin(), node.node->output().end());
  }
}

/// Finds the values to scale; returns whether there are any.
bool GradientScaler::findScaled() {
  findBackward();
  findLevels();
  for (unsigned index : backward.set_bits()) {
    const PlannedNode &node = nodes[index];
    if (node.isContraction && node.isPlanned() &&
        node.operand == TensorProto::FLOAT16)
      demand(index);
  }
  extend();
  widenReaders();
  return !scaled.empty();
}

//===----------------------------------------------------------------------===//
// Nodes that scale
//===----------------------------------------------------------------------===//

void GradientScaler::addScalar(const std::string &name, double value) {
  TensorProto &tensor = *graph.add_initializer();
  types.set(name, TensorProto::FLOAT);
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::FLOAT);
  tensor.add_float_data(static_cast<float>(value));
}

void GradientScaler::addNode(StringRef op, ArrayRef<std::string> inputs,
                             const std::string &output, int32_t type) {
  types.set(output, type);
  PlannedNode &added = result.emplace_back();
  added.node = std::make_unique<NodeProto>();
  added.node->set_op_type(op.str());
  added.node->set_name(names.makeNew((op + "_" + output).str()));
  for (const std::string &input : inputs)
    added.node->add_input(input);
  added.node->add_output(output);
}

std::string GradientScaler::multiply(const std::string &value,
                                     const std::string &factor,
                                     const std::string &result) {
  addNode("Mul", {value, factor}, result);
  return result;
}

static void addPort(::onnx::ValueInfoProto &port, const std::string &name,
                    int32_t type) {
  port.set_name(name);
  auto &tensor = *port.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
}

void GradientScaler::addScale(const GradientScale &scale) {
  inverse = names.makeNew("inverse_loss_scale");
  factor = names.makeNew("loss_scale");
  if (!scale.isDynamic) {
    addScalar(factor, scale.init);
    addScalar(inverse, 1.0 / scale.init);
    return;
  }
  types.set(factor, TensorProto::FLOAT);
  addPort(*graph.add_input(), factor, TensorProto::FLOAT);
  if (!updates.empty())
    addScalar(factor, scale.init);
  addNode("Reciprocal", {factor}, inverse);
}

std::string GradientScaler::addInteger(const std::string &name, int64_t value) {
  TensorProto &tensor = *graph.add_initializer();
  types.set(name, TensorProto::INT64);
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::INT64);
  tensor.add_int64_data(value);
  return name;
}

/// Builds whether any gradient is not finite: 0 times a finite value is 0, and
/// otherwise NaN.
std::string GradientScaler::findOverflow() {
  std::string zero = names.makeNew("loss_scale_zero");
  addScalar(zero, 0.0);
  SmallVector<std::string> sums;
  for (const std::string &gradient : unscaled) {
    std::string product = names.makeNew(gradient + "_finite");
    addNode("Mul", {gradient, zero}, product);
    sums.push_back(names.makeNew(gradient + "_sum"));
    addNode("ReduceSum", {product}, sums.back());
    auto &attribute = *result.back().node->add_attribute();
    attribute.set_name("keepdims");
    attribute.set_type(::onnx::AttributeProto::INT);
    attribute.set_i(0);
  }
  std::string sum = names.makeNew("loss_scale_sum"),
              found = names.makeNew("found_inf");
  addNode("Sum", sums, sum);
  addNode("IsNaN", {sum}, found, TensorProto::BOOL);
  addPort(*graph.add_output(), found, TensorProto::BOOL);
  return found;
}

/// Counts steps without an overflow, and returns whether the scale grows.
std::string GradientScaler::growScale(const GradientScale &scale,
                                      const std::string &found) {
  auto make = [&](StringRef name) { return names.makeNew(name); };
  std::string counter = make("growth_counter");
  addPort(*graph.add_input(), counter, TensorProto::INT64);
  if (!updates.empty())
    addInteger(counter, 0);
  std::string none = addInteger(make("growth_none"), 0);
  std::string next = make("growth_next"), grows = make("growth_due");
  addNode("Add", {counter, addInteger(make("growth_one"), 1)}, next,
          TensorProto::INT64);
  addNode("Equal", {next, addInteger(make("growth_interval"), scale.interval)},
          grows, TensorProto::BOOL);
  std::string kept = make("growth_kept"), newCounter = make("new." + counter);
  addNode("Where", {grows, none, next}, kept, TensorProto::INT64);
  addNode("Where", {found, none, kept}, newCounter, TensorProto::INT64);
  addPort(*graph.add_output(), newCounter, TensorProto::INT64);
  return grows;
}

/// Updates the scale as PyTorch's GradScaler does: it shrinks if a gradient is
/// not finite, and grows after `interval` consecutive steps without such a
/// gradient. A whole training step skips its updates when the scale shrinks.
void GradientScaler::updateScale(const GradientScale &scale) {
  auto make = [&](StringRef name) { return names.makeNew(name); };
  std::string found = findOverflow(), grows = growScale(scale, found);
  std::string growth = make("growth"), backoff = make("backoff");
  addScalar(growth, scale.growth);
  addScalar(backoff, scale.backoff);
  std::string grown = make("loss_scale_grown"),
              shrunk = make("loss_scale_shrunk"),
              stays = make("loss_scale_kept"), newScale = make("new." + factor);
  multiply(factor, growth, grown);
  multiply(factor, backoff, shrunk);
  addNode("Where", {grows, grown, factor}, stays);
  addNode("Where", {found, shrunk, stays}, newScale);
  addPort(*graph.add_output(), newScale, TensorProto::FLOAT);
  skipUpdates(updates, found, result, names, types);
}

void GradientScaler::rewrite(GradientScale scale, ConvertReport &report) {
  if (scale.isStateOfSteps)
    updates = findUpdates(graph, nodes, backward);
  scale.isDynamic |= !updates.empty();
  // Values that are read from outside under their names stay unscaled; the
  // scaled ones get other names.
  llvm::StringMap<std::string> renamed, small, large;
  for (StringRef name : scaled.keys())
    if (outside.contains(name))
      types.set(renamed[name] = names.makeNew((name + "_scaled").str()),
                TensorProto::FLOAT);
  auto getScaled = [&](const std::string &name) {
    auto found = renamed.find(name);
    return found == renamed.end() ? name : found->second;
  };
  // Scaled values that are also read unscaled.
  llvm::StringSet<> wanted;
  for (const auto &entry : renamed)
    wanted.insert(entry.getKey());
  for (auto [index, node] : llvm::enumerate(nodes))
    for (auto [input, name] : llvm::enumerate(node.node->input()))
      if (scaled.contains(name) && !readsScaled(index, input))
        wanted.insert(name);

  addScale(scale);
  for (auto [index, node] : llvm::enumerate(nodes)) {
    for (auto [input, name] : llvm::enumerate(*node.node->mutable_input())) {
      if (!readsScaled(index, input)) {
        if (scaled.contains(name))
          name = small.lookup(name);
      } else if (scaled.contains(name)) {
        name = getScaled(name);
      } else {
        std::string &made = large[name];
        if (made.empty())
          made = multiply(name, factor, names.makeNew(name + "_scaled"));
        name = made;
      }
    }
    report.scaled += !slots[index].empty();
    SmallVector<std::string> made;
    for (std::string &name : *node.node->mutable_output())
      if (scaled.contains(name)) {
        made.push_back(name);
        name = getScaled(name);
      }
    result.push_back(std::move(node));
    for (const std::string &name : made) {
      if (!wanted.contains(name))
        continue;
      bool isRenamed = renamed.contains(name);
      small[name] =
          multiply(getScaled(name), inverse,
                   isRenamed ? name : names.makeNew(name + "_unscaled"));
      unscaled.push_back(small[name]);
    }
  }
  if (scale.isDynamic)
    updateScale(scale);
  nodes = std::move(result);
  report.scale = scale.init;
  report.scaleReason = scale.reason;
  report.hasDynamicScale = scale.isDynamic;
}

void mlir::binade::convert::scaleGradients(PlannedGraph &planned,
                                           UniqueNames &names,
                                           const llvm::StringSet<> &outside,
                                           const GradientScale &scale,
                                           ConvertReport &report) {
  GradientScaler scaler(*planned.graph, planned.nodes, names, *planned.types,
                        outside);
  if (scaler.findScaled())
    scaler.rewrite(scale, report);
}
