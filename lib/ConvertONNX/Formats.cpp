//===- Formats.cpp - Decisions as types of ONNX nodes ---------------------===//

#include "Formats.h"
#include "Linear.h"
#include "Sums.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

/// The first operator set in which QuantizeLinear supports FP8.
static constexpr int64_t kFirstSetWithBytes = 19;
/// The first operator set in which QuantizeLinear supports blocks.
static constexpr int64_t kFirstSetWithBlocks = 21;

/// The formats that ONNX and the IR have in common.
static constexpr std::pair<int32_t, StringLiteral> formatNames[] = {
    {TensorProto::FLOAT, "f32"},
    {TensorProto::FLOAT16, "f16"},
    {TensorProto::BFLOAT16, "bf16"},
    {TensorProto::FLOAT8E4M3FN, "f8E4M3FN"},
    {TensorProto::FLOAT8E5M2, "f8E5M2"},
};

int32_t mlir::binade::convert::getOnnxType(Type format) {
  std::string name = llvm::to_string(format);
  for (auto [type, known] : formatNames)
    if (name == known)
      return type;
  return TensorProto::UNDEFINED;
}

int64_t mlir::binade::convert::getStandardSet(const OperatorSets &sets) {
  auto standard = sets.find("");
  return standard == sets.end() ? 0 : standard->second;
}

StringRef mlir::binade::convert::getFormatName(int32_t type) {
  for (auto [known, name] : formatNames)
    if (type == known)
      return name;
  return "?";
}

namespace {
/// Counts decisions that cannot be expressed, by their description.
class Limits {
public:
  void add(const std::string &text) { ++counts[text]; }
  void print(std::vector<std::string> &limits) const {
    for (const auto &[text, count] : counts)
      limits.push_back(
          llvm::formatv("{0} ({1} node{2})", text, count, count == 1 ? "" : "s")
              .str());
  }

private:
  llvm::MapVector<std::string, unsigned, std::map<std::string, unsigned>>
      counts;
};

class NodePlanner {
public:
  NodePlanner(const ElementTypes &types, const OperatorSets &sets,
              Limits &limits)
      : types(types), sets(sets), limits(limits) {}

  void plan(PlannedNode &planned, const NodeFormats &formats);

private:
  std::string findLetters(const NodeProto &node, const OpSchema &schema,
                          const NodeFormats &formats) const;
  QuantizedInput findCodes(const NodeProto &node, unsigned input,
                           const NodeFormats &formats) const;
  void planQuantized(PlannedNode &planned, const NodeFormats &formats);
  void planSaved(PlannedNode &planned, const SavedFormat &saved);

  const ElementTypes &types;
  const OperatorSets &sets;
  Limits &limits;
};
} // namespace

/// Returns the letters of the schema whose types change together: that of the
/// first output, and those of f32 inputs that follow the decision. Inputs that
/// do not follow it change only if they share such a letter. Returns nothing if
/// an attribute specifies the type of the output.
std::string NodePlanner::findLetters(const NodeProto &node,
                                     const OpSchema &schema,
                                     const NodeFormats &formats) const {
  std::string read, letters;
  auto isNumbers = [&](const std::string &name) {
    return types.get(name) == TensorProto::FLOAT;
  };
  for (auto [index, name] : llvm::enumerate(node.input())) {
    std::optional<char> letter = schema.getInput(index);
    if (!letter || !isNumbers(name))
      continue;
    read += *letter;
    bool isWide = index < formats.isWide.size() && formats.isWide[index];
    if (!isWide)
      letters += *letter;
  }
  if (read.empty())
    return "";
  std::optional<char> made = read.front();
  if (node.output_size() > 0 && isNumbers(node.output(0)))
    made = schema.getOutput(0);
  if (!made || !StringRef(read).contains(*made))
    return "";
  return *made + letters;
}

/// Whether QuantizeLinear supports the format, and a few nodes can compute its
/// scales.
static bool hasCodes(QuantizedAttr format) {
  FloatType element = format.getFormat();
  return element && element.getWidth() == 8 && getOnnxType(element) &&
         !format.getExpand() && !format.getStochastic() &&
         format.getHistory() == 0 && !format.hasBlockScales();
}

static int64_t getFirstOperatorSet(const QuantizedInput &codes) {
  return codes.block.empty() ? kFirstSetWithBytes : kFirstSetWithBlocks;
}

/// Returns the quantization of an input; null if ONNX cannot express it.
QuantizedInput NodePlanner::findCodes(const NodeProto &node, unsigned input,
                                      const NodeFormats &formats) const {
  QuantizedAttr format = formats.operands[input];
  if (!hasCodes(format))
    return {};
  int64_t rank = input < formats.ranks.size() ? formats.ranks[input] : -1;
  return getQuantizedInput(node, input, format, rank);
}

void NodePlanner::planQuantized(PlannedNode &planned,
                                const NodeFormats &formats) {
  if (!contractsInputs(*planned.node))
    return;
  int64_t version = getStandardSet(sets);
  SmallVector<QuantizedInput> inputs(formats.operands.size());
  for (auto [index, format] : llvm::enumerate(formats.operands)) {
    if (!format)
      continue;
    QuantizedInput codes = findCodes(*planned.node, index, formats);
    int64_t first = getFirstOperatorSet(codes);
    if (!codes || version < first) {
      std::string who = "ONNX";
      if (codes)
        who = llvm::formatv("operator set {0}, before {1},", version, first);
      limits.add(llvm::formatv("{0} does not quantize to {1}: {2} instead", who,
                               format, formats.compute));
      return;
    }
    inputs[index] = codes;
  }
  if (llvm::any_of(inputs, [](const auto &codes) { return bool(codes); }))
    planned.operands = std::move(inputs);
}

void NodePlanner::planSaved(PlannedNode &planned, const SavedFormat &saved) {
  const NodeProto &node = *planned.node;
  if (!saved || types.get(node.output(0)) != TensorProto::FLOAT)
    return;
  bool isOnly = node.output_size() == 1;
  if (isOnly && !saved.isFirst)
    return; // The saved value is not an output of the node.
  if (saved.codes) {
    QuantizedInput codes = hasCodes(saved.codes)
                               ? getQuantizedValue(saved.codes, saved.shape)
                               : QuantizedInput();
    if (isOnly && codes && getStandardSet(sets) >= getFirstOperatorSet(codes))
      planned.saved = codes;
    else
      limits.add(llvm::formatv(
          "tensors saved for backward are not quantized to {0}", saved.codes));
    return;
  }
  // A cast to fewer than 16 bits would saturate, unlike in the IR.
  FloatType format = saved.format;
  int32_t type = getOnnxType(format);
  if (isOnly && format.getWidth() == 16 && canCast(sets, type))
    planned.savedType = type;
  else
    limits.add(llvm::formatv(
        "tensors saved for backward are not rounded to {0}", format));
}

/// Whether the function by which ONNX defines the op is valid for `type`.
/// Runtimes without a kernel for the type execute this function, whose nodes
/// may allow fewer types than the op.
static bool isBodyValid(const NodeProto &node, int32_t type,
                        const OperatorSets &sets) {
  if (node.op_type() == "SoftmaxCrossEntropyLoss") {
    const OpSchema *inner =
        findSchema(node.domain(), "NegativeLogLikelihoodLoss", sets);
    std::optional<char> letter = inner ? inner->getInput(0) : std::nullopt;
    return !letter || inner->allows(*letter, type);
  }
  // It adds masks of f32, for causality and for padding, to one of `type`.
  // Runtimes have kernels for f16.
  constexpr int kMask = 3, kPadding = 6;
  auto has = [&](int input) {
    return node.input_size() > input && !node.input(input).empty();
  };
  bool isCausal = llvm::any_of(node.attribute(), [](const auto &attribute) {
    return attribute.name() == "is_causal" && attribute.i() != 0;
  });
  return node.op_type() != "Attention" || type != TensorProto::BFLOAT16 ||
         !has(kMask) || !(isCausal || has(kPadding));
}

void NodePlanner::plan(PlannedNode &planned, const NodeFormats &formats) {
  planned.isBackward = formats.isBackward;
  planned.isMovement = formats.isMovement;
  planned.movesAll = formats.movesAll;
  planned.same = formats.same;
  planSaved(planned, formats.saved);
  const NodeProto &node = *planned.node;
  planned.isContraction = static_cast<bool>(formats.accumulate);
  if (!formats.compute && !formats.isMovement)
    return;
  // The compute type must be a type of the schema, not of an attribute.
  const OpSchema *schema = findSchema(node.domain(), node.op_type(), sets);
  std::string letters =
      schema ? findLetters(node, *schema, formats) : std::string();
  if (letters.empty())
    return;
  // Ops that move parameters have no decision.
  auto getType = [](FloatType format) {
    return format ? getOnnxType(format) : int32_t(TensorProto::FLOAT);
  };
  int32_t compute = getType(formats.compute);
  int32_t result = getType(formats.result);
  if (!compute || !result) {
    limits.add(llvm::formatv("ONNX has no {0}: f32 instead",
                             compute ? formats.result : formats.compute));
    return;
  }
  for (int32_t type : {compute, result})
    if (!canCast(sets, type)) {
      limits.add(llvm::formatv("Cast of this operator set has no {0}: f32 "
                               "instead",
                               getFormatName(type)));
      return;
    }
  planned.letters = letters;
  planned.schema = schema;
  planned.compute = planned.operand = compute;
  planned.result = result;
  planQuantized(planned, formats);
  if (formats.accumulation)
    limits.add(llvm::formatv("ONNX has no accumulator of {0} bits: products of "
                             "quantized operands are added in f32",
                             formats.accumulation.getBits()));
  // Whether the op has to compute in f32 on rounded operands: contractions with
  // f32 results or quantized operands, and ops that accumulate in the type of
  // their operands.
  bool isLossy = (planned.isContraction && result == TensorProto::FLOAT) ||
                 !planned.operands.empty() || sumsInOwnType(node, sets);
  if (!schema->allows(letters.front(), compute) ||
      !isBodyValid(node, compute, sets)) {
    limits.add(llvm::formatv("{0} of this operator set has no {1}: computed in "
                             "f32 on rounded operands",
                             schema->name, formats.compute));
    planned.compute = TensorProto::FLOAT;
  } else if (isLossy) {
    planned.compute = TensorProto::FLOAT;
  }
  if (planned.compute != TensorProto::FLOAT)
    setSumsWide(*planned.node);
  llvm::erase_if(planned.letters, [&](char letter) {
    return !schema->allows(letter, planned.compute);
  });
}

NodeFormats mlir::binade::convert::getNodeFormats(const NodeProto &node,
                                                  const NodeFormats &formats) {
  NodeFormats chosen = formats;
  if (!followsMatmuls(node) || !formats.matmulCompute)
    return chosen;
  chosen.compute = formats.matmulCompute;
  chosen.result = formats.matmulResult;
  chosen.rule = formats.matmulRule;
  return chosen;
}

void mlir::binade::convert::forEachInferredGraph(
    NodeProto &node, const NodeProto *inferred,
    llvm::function_ref<void(::onnx::GraphProto &, const ::onnx::GraphProto *)>
        visit) {
  for (int i = 0; i < node.attribute_size(); ++i) {
    auto &attribute = *node.mutable_attribute(i);
    const auto *more = inferred ? &inferred->attribute(i) : nullptr;
    if (attribute.has_g())
      visit(*attribute.mutable_g(), more ? &more->g() : nullptr);
    for (int g = 0; g < attribute.graphs_size(); ++g)
      visit(*attribute.mutable_graphs(g), more ? &more->graphs(g) : nullptr);
  }
}

/// Returns indices of nodes with producers before their readers, otherwise in
/// the order of the file.
static std::vector<unsigned>
sortNodes(ArrayRef<std::unique_ptr<NodeProto>> nodes) {
  llvm::StringMap<unsigned> producers;
  for (auto [index, node] : llvm::enumerate(nodes))
    for (const std::string &name : node->output())
      if (!name.empty())
        producers[name] = index;
  std::vector<SmallVector<unsigned>> needed(nodes.size());
  for (auto [index, node] : llvm::enumerate(nodes))
    forEachRead(*node, [&](const std::string &name) {
      auto producer = producers.find(name);
      if (producer != producers.end())
        needed[index].push_back(producer->second);
    });
  std::vector<unsigned> order;
  // 0: not visited, 1: producers are being visited, 2: done.
  std::vector<char> state(nodes.size());
  for (unsigned root = 0; root < nodes.size(); ++root) {
    SmallVector<std::pair<unsigned, unsigned>> stack;
    auto enter = [&](unsigned node) {
      if (state[node] == 0) {
        state[node] = 1;
        stack.push_back({node, 0});
      }
    };
    enter(root);
    while (!stack.empty()) {
      auto [node, next] = stack.back();
      if (next < needed[node].size()) {
        ++stack.back().second;
        enter(needed[node][next]);
        continue;
      }
      state[node] = 2;
      order.push_back(node);
      stack.pop_back();
    }
  }
  return order;
}

namespace {
/// Plans the graphs of a model, outer graphs first.
class GraphPlanner {
public:
  GraphPlanner(ArrayRef<NodeFormats> formats, const OperatorSets &sets)
      : formats(formats), sets(sets) {}

  PlannedGraph plan(::onnx::GraphProto &graph,
                    const ::onnx::GraphProto *inferred,
                    const ElementTypes *outer);

  Limits limits;

private:
  /// Returns the formats of the next node in the order of the file.
  NodeFormats takeFormats() {
    unsigned index = next++;
    return index < formats.size() ? formats[index] : NodeFormats();
  }

  ArrayRef<NodeFormats> formats;
  const OperatorSets &sets;
  unsigned next = 0;
};
} // namespace

PlannedGraph GraphPlanner::plan(::onnx::GraphProto &graph,
                                const ::onnx::GraphProto *inferred,
                                const ElementTypes *outer) {
  PlannedGraph result{
      &graph, std::make_unique<ElementTypes>(graph, sets, inferred, outer)};
  auto &nodes = *graph.mutable_node();
  std::vector<NodeProto *> taken(nodes.size());
  nodes.ExtractSubrange(0, nodes.size(), taken.data());
  std::vector<std::unique_ptr<NodeProto>> owned(taken.begin(), taken.end());
  std::vector<unsigned> order = sortNodes(owned);
  NodePlanner planner(*result.types, sets, limits);
  PlannedNodes planned(owned.size());
  for (auto [index, node] : llvm::enumerate(planned)) {
    node.node = std::move(owned[index]);
    planner.plan(node, getNodeFormats(*node.node, takeFormats()));
    forEachInferredGraph(
        *node.node, inferred ? &inferred->node(index) : nullptr,
        [&](::onnx::GraphProto &inner,
            const ::onnx::GraphProto *innerInferred) {
          node.graphs.push_back(plan(inner, innerInferred, result.types.get()));
        });
  }
  for (unsigned index : order)
    result.nodes.push_back(std::move(planned[index]));
  return result;
}

PlannedGraph mlir::binade::convert::planNodes(
    ::onnx::GraphProto &graph, const ::onnx::GraphProto *inferred,
    ArrayRef<NodeFormats> formats, const OperatorSets &sets,
    std::vector<std::string> &limits) {
  GraphPlanner planner(formats, sets);
  PlannedGraph planned = planner.plan(graph, inferred, nullptr);
  planner.limits.print(limits);
  return planned;
}
