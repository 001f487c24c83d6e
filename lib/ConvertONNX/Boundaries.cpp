//===- Boundaries.cpp - Types at boundaries of subgraphs ------------------===//

#include "Boundaries.h"
#include "llvm/ADT/IntEqClasses.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

/// The first operator set in which `If`, `Loop` and `Scan` support bf16.
static constexpr int64_t kSetOfBF16 = 16;
/// The first operator set in which `Scan` has no batch axis.
static constexpr int64_t kSetOfScan = 9;

namespace {
/// A value that passes a boundary, by its indices among the node's inputs, the
/// subgraph's inputs, the subgraph's outputs and the node's outputs; -1 where
/// it has none.
struct Passage {
  int input = -1, inside = -1, made = -1, output = -1;
};

/// A graph and the names that it defines.
struct Scope {
  /// Returns the scope that defines `name`, or null.
  const Scope *find(const std::string &name) const {
    if (names.contains(name))
      return this;
    return outer ? outer->find(name) : nullptr;
  }

  PlannedGraph &planned;
  const Scope *outer;
  llvm::StringSet<> names = {};
};

class Boundaries {
public:
  Boundaries(const llvm::StringSet<> &outside, const OperatorSets &sets)
      : outside(outside), sets(sets) {}

  void visit(PlannedGraph &planned, const Scope *outer);
  void apply();

private:
  /// A value: the graph that defines it, and its name.
  using Key = std::pair<const PlannedGraph *, std::string>;
  struct Value {
    /// The types to which producers and readers round it.
    SmallVector<int32_t, 2> sources, reads;
    bool isCarried = false;
  };

  unsigned getId(const Key &key) {
    auto [entry, isNew] = ids.try_emplace(key, values.size());
    if (isNew)
      values.emplace_back();
    return entry->second;
  }
  SmallVector<Passage> listPassages(const PlannedNode &node) const;
  void join(const Scope &scope, PlannedNode &node, const Passage &passage);
  void join(PlannedGraph &graph, const std::string &name, unsigned id);
  void visit(const Scope &scope, PlannedNode &node);
  void mergeValues();
  int32_t choose(const Value &value) const;

  const llvm::StringSet<> &outside;
  const OperatorSets &sets;
  std::map<Key, unsigned> ids;
  std::vector<Value> values;
  SmallVector<std::pair<unsigned, unsigned>> equal;
  /// A boundary value, and the value of the enclosing graph with which it
  /// starts.
  std::vector<std::pair<unsigned, Key>> starts;
  /// Where to write the chosen type of a value.
  std::vector<std::pair<unsigned, int32_t *>> types;
};
} // namespace

static const std::string *findName(const auto &list, int place) {
  bool isThere = place >= 0 && place < list.size();
  if constexpr (requires { list[0].name(); })
    return isThere ? &list[place].name() : nullptr;
  else
    return isThere && !list[place].empty() ? &list[place] : nullptr;
}

SmallVector<Passage>
Boundaries::listPassages(const PlannedNode &planned) const {
  const NodeProto &node = *planned.node;
  SmallVector<Passage> passages;
  if (!node.domain().empty() && node.domain() != "ai.onnx")
    return passages;
  int inputs = node.input_size(), outputs = node.output_size();
  if (node.op_type() == "If") {
    for (int i = 0; i < outputs; ++i)
      passages.push_back({-1, -1, i, i});
  } else if (node.op_type() == "Loop") {
    int states = inputs - 2;
    for (int i = 0; i < states; ++i)
      passages.push_back({i + 2, i + 2, i + 1, i});
    for (int i = states; i < outputs; ++i)
      passages.push_back({-1, -1, i + 1, i});
  } else if (node.op_type() == "Scan" && getStandardSet(sets) >= kSetOfScan) {
    auto count = llvm::find_if(node.attribute(), [](const auto &attribute) {
      return attribute.name() == "num_scan_inputs";
    });
    int states = count == node.attribute().end() ? 0 : inputs - int(count->i());
    for (int i = 0; i < states; ++i)
      passages.push_back({i, i, i, i});
    for (int i = std::max(states, 0); i < inputs; ++i)
      passages.push_back({i, i, -1, -1});
    for (int i = std::max(states, 0); i < outputs; ++i)
      passages.push_back({-1, -1, i, i});
  }
  return passages;
}

/// Records that `name` of `graph` is the value `id`.
void Boundaries::join(PlannedGraph &graph, const std::string &name,
                      unsigned id) {
  unsigned own = getId({&graph, name});
  values[own].isCarried = true;
  equal.push_back({own, id});
  types.push_back({id, &graph.carried[name]});
}

void Boundaries::join(const Scope &scope, PlannedNode &node,
                      const Passage &passage) {
  const std::string *input = findName(node.node->input(), passage.input),
                    *output = findName(node.node->output(), passage.output);
  auto isWide = [](const PlannedGraph &graph, const std::string *name) {
    return !name || graph.types->get(*name) == TensorProto::FLOAT;
  };
  bool isTensor = isWide(scope.planned, input) && isWide(scope.planned, output);
  for (const PlannedGraph &inner : node.graphs)
    isTensor &= isWide(inner, findName(inner.graph->input(), passage.inside)) &&
                isWide(inner, findName(inner.graph->output(), passage.made));
  unsigned id = values.size();
  values.emplace_back();
  if (!isTensor) { // The value keeps its type.
    values[id].sources.push_back(TensorProto::FLOAT);
    values[id].reads.push_back(TensorProto::FLOAT);
  }
  for (PlannedGraph &inner : node.graphs) {
    if (const auto *name = findName(inner.graph->input(), passage.inside))
      join(inner, *name, id);
    if (const auto *name = findName(inner.graph->output(), passage.made))
      join(inner, *name, id);
  }
  if (input) {
    if (const Scope *from = scope.find(*input))
      starts.push_back({id, {&from->planned, *input}});
    else
      values[id].sources.push_back(TensorProto::FLOAT);
    types.push_back({id, &node.carriedInputs[passage.input]});
  }
  if (output) {
    unsigned own = getId({&scope.planned, *output});
    values[own].isCarried = true;
    equal.push_back({own, id});
    types.push_back({id, &node.carriedOutputs[passage.output]});
  }
}

void Boundaries::visit(const Scope &scope, PlannedNode &node) {
  SmallVector<Passage> passages = listPassages(node);
  node.carriedInputs.assign(node.node->input_size(), 0);
  node.carriedOutputs.assign(node.node->output_size(), 0);
  for (const Passage &passage : passages)
    join(scope, node, passage);
  for (auto [input, name] : llvm::enumerate(node.node->input())) {
    bool isStart = llvm::any_of(passages, [&](const Passage &passage) {
      return passage.input == int(input);
    });
    const Scope *from = scope.find(name);
    if (!from || isStart)
      continue;
    bool isRounded = node.readsChosen(input) && !node.getQuantized(input);
    values[getId({&from->planned, name})].reads.push_back(
        isRounded ? node.operand : int32_t(TensorProto::FLOAT));
  }
  for (auto [output, name] : llvm::enumerate(node.node->output()))
    if (passages.empty() && !name.empty())
      values[getId({&scope.planned, name})].sources.push_back(
          node.makesChosen(output) ? node.result : int32_t(TensorProto::FLOAT));
  for (PlannedGraph &inner : node.graphs)
    visit(inner, &scope);
}

void Boundaries::visit(PlannedGraph &planned, const Scope *outer) {
  Scope scope{planned, outer};
  llvm::StringSet<> made;
  for (const auto &input : planned.graph->input())
    made.insert(input.name());
  for (const PlannedNode &node : planned.nodes)
    for (const std::string &name : node.node->output())
      made.insert(name);
  scope.names = made;
  for (const auto &tensor : planned.graph->initializer())
    scope.names.insert(tensor.name());
  // Stored tensors, and values that are read as f32, keep their type.
  for (const auto &output : planned.graph->output()) {
    Value &value = values[getId({&planned, output.name()})];
    if (!made.contains(output.name()))
      value.sources.push_back(TensorProto::FLOAT);
    if (!made.contains(output.name()) ||
        !planned.carried.contains(output.name()))
      value.reads.push_back(TensorProto::FLOAT);
  }
  for (PlannedNode &node : planned.nodes)
    visit(scope, node);
  if (!outer)
    for (StringRef name : outside.keys())
      values[getId({&planned, name.str()})].reads.push_back(TensorProto::FLOAT);
}

/// Merges values that must have equal types.
void Boundaries::mergeValues() {
  for (const auto &[id, key] : starts) {
    unsigned from = getId(key);
    if (values[from].isCarried) {
      equal.push_back({id, from});
    } else {
      SmallVector<int32_t, 2> sources = values[from].sources;
      if (sources.empty()) // An input or a stored tensor.
        sources.push_back(TensorProto::FLOAT);
      llvm::append_range(values[id].sources, sources);
    }
  }
  llvm::IntEqClasses classes(values.size());
  for (auto [one, other] : equal)
    classes.join(one, other);
  for (unsigned id = 0; id < values.size(); ++id) {
    unsigned leader = classes.findLeader(id);
    if (leader == id)
      continue;
    llvm::append_range(values[leader].sources, values[id].sources);
    llvm::append_range(values[leader].reads, values[id].reads);
  }
  for (auto &[id, type] : types)
    id = classes.findLeader(id);
}

int32_t Boundaries::choose(const Value &value) const {
  for (ArrayRef<int32_t> rounded :
       {ArrayRef<int32_t>(value.sources), ArrayRef<int32_t>(value.reads)})
    if (!rounded.empty() && llvm::all_equal(rounded)) {
      int32_t type = rounded.front();
      bool isHeld =
          type != TensorProto::BFLOAT16 || getStandardSet(sets) >= kSetOfBF16;
      if (type != TensorProto::FLOAT && isHeld)
        return type;
    }
  return TensorProto::FLOAT;
}

void Boundaries::apply() {
  mergeValues();
  for (auto [id, type] : types)
    *type = choose(values[id]);
}

void mlir::binade::convert::chooseBoundaries(PlannedGraph &graph,
                                             const llvm::StringSet<> &outside,
                                             const OperatorSets &sets) {
  if (llvm::all_of(graph.nodes,
                   [](const PlannedNode &node) { return node.graphs.empty(); }))
    return;
  Boundaries boundaries(outside, sets);
  boundaries.visit(graph, nullptr);
  boundaries.apply();
}
