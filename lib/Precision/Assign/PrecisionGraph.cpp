//===- PrecisionGraph.cpp - Ops with chosen formats -----------------------===//

#include "binade/Precision/PrecisionGraph.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"
#include "binade/IR/Shards.h"
#include "binade/Precision/Biases.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::binade;

/// The indices of the values that nodes read or write, and their producers.
struct PrecisionGraph::ValueNumbers {
  unsigned add(Value value, std::optional<unsigned> producer) {
    numbers[value] = producers.size();
    producers.push_back(producer);
    return producers.size() - 1;
  }

  /// Returns the index of `value`; none for constants.
  std::optional<unsigned> find(Value value) {
    auto found = numbers.find(value);
    if (found != numbers.end())
      return found->second;
    if (matchPattern(value, m_Constant()))
      return std::nullopt;
    return add(value, std::nullopt);
  }

  DenseMap<Value, unsigned> numbers;
  std::vector<std::optional<unsigned>> producers;
};

PrecisionGraph::PrecisionGraph(func::FuncOp step, const Policy &policy)
    : policy(policy), matcher(policy.rules, step), constants(policy),
      numNarrow(getFormatChoices(policy).size() - 1) {
  if (policy.evidence)
    evidence.emplace(step, policy);
  quantizes = llvm::any_of(policy.rules, [](const PolicyRule &rule) {
    return bool(rule.settings.quantize);
  });
  ValueNumbers numbers;
  // A single traversal, because a large step does not fit into a cache.
  for (Operation &op : step.front()) {
    constants.visit(&op);
    if (auto update = dyn_cast<OptimizerUpdateOp>(op))
      addStorage(update);
    else if (auto computed = dyn_cast<PrecisionOpInterface>(op);
             computed && hasChosenFormat(computed))
      addNode(computed, numbers);
  }
  numValues = numbers.producers.size();
  addReaders();
  if (llvm::any_of(policy.rules, [](const PolicyRule &rule) {
        return bool(rule.settings.unitScale);
      }))
    scales.emplace(step, policy, evidence ? &*evidence : nullptr);
}

void PrecisionGraph::addNode(PrecisionOpInterface op, ValueNumbers &numbers) {
  unsigned index = nodes.size();
  PrecisionAttr decision = op.getPrecisionAttr();
  PrecisionNode &node = nodes.emplace_back();
  node.op = op;
  node.isPinned = decision && decision.isPin();
  node.rule = matcher.find(op);
  if (quantizes && op.accumulates())
    node.product = findLayerProduct(op, matcher.getRoles());
  for (OpOperand &operand : op->getOpOperands()) {
    if (op.getOperandFormat(operand.getOperandNumber()) != FormatRole::Chosen)
      continue;
    if (std::optional<unsigned> number = numbers.find(operand.get()))
      inputs.push_back({operand.get(), *number, numbers.producers[*number]});
  }
  firstInput.push_back(inputs.size());
  for (OpResult result : op->getResults())
    if (op.getResultFormat(result.getResultNumber()) == FormatRole::Chosen)
      numbers.add(result, index);
  addUnsuitable(index);
  settle(index);
}

bool mlir::binade::areEquivalent(StorageAttr lhs, StorageAttr rhs) {
  auto getFormats = [](StorageAttr decision) {
    auto unlessWide = [](FloatType format) {
      return !format || format.isF32() ? FloatType() : format;
    };
    if (!decision)
      return std::tuple(FloatType(), Master::None, Attribute(), FloatType());
    Attribute states = decision.getStates();
    if (auto type = dyn_cast_if_present<TypeAttr>(states);
        type && type.getValue().isF32())
      states = {};
    return std::tuple(unlessWide(decision.getParameter()), decision.getMaster(),
                      states, unlessWide(decision.getAccumulator()));
  };
  return getFormats(lhs) == getFormats(rhs);
}

/// Returns the formats of the states of `op`. Quantizes those of large
/// parameters that are not embeddings, and of parameters that a rule selects by
/// name or role.
Attribute PrecisionGraph::chooseStates(const StateFormats &formats,
                                       OptimizerUpdateOp op, bool isSelected) {
  auto isQuantized = [](Attribute format) {
    return isa<QuantizedAttr>(format);
  };
  bool quantizes =
      isQuantized(formats.ofSigned) || isQuantized(formats.ofUnsigned);
  if (quantizes && !isSelected) {
    quantizes = countWholeElements(op.getParameter()) >= kMinQuantized &&
                !matcher.getRoles().has(op, TensorRole::Embedding);
  }
  return mlir::binade::chooseStates(formats, op, quantizes);
}

/// Applies the formats of states that a user passed in addition to the policy.
void PrecisionGraph::override(StorageNode &node) {
  OptimizerUpdateOp op = node.op;
  for (const StateOverride &said : llvm::reverse(policy.states)) {
    if (said.name.pattern && !said.name.matches(getNodeName(op)))
      continue;
    bool isSelected = said.name.pattern.has_value();
    Attribute states = chooseStates(said.formats, op, isSelected);
    StorageAttr base = node.decision;
    node.decision = StorageAttr::get(
        op.getContext(), base ? base.getParameter() : FloatType(),
        base ? base.getMaster() : Master::None, states,
        base ? base.getAccumulator() : FloatType(),
        StringAttr::get(op.getContext(), "--states"));
    return;
  }
}

void PrecisionGraph::addStorage(OptimizerUpdateOp op) {
  StorageNode node{op, nullptr, op.getStorageAttr()};
  if (!node.decision || !node.decision.isPin()) {
    node.rule = matcher.find(op);
    node.decision = {};
  }
  if (node.rule) {
    const PolicySettings &settings = node.rule->settings;
    const PolicySelector &match = node.rule->match;
    Attribute states;
    if (settings.state)
      states =
          chooseStates(settings.state, op, match.name.pattern || match.role);
    node.decision = StorageAttr::get(
        op.getContext(), settings.parameter,
        settings.master.value_or(Master::None), states, settings.accumulator,
        StringAttr::get(op.getContext(), node.rule->origin));
  }
  if (!node.decision || !node.decision.isPin())
    override(node);
  auto keep = [&](Value before, Value after, FloatType format) {
    if (!format)
      return;
    stored[before] = format;
    stored[after] = format;
  };
  if (node.decision) {
    keep(op.getParameter(), op.getNewParameter(), node.decision.getParameter());
    for (const KeptState &state : op.getKeptStates())
      keep(op.getStates()[state.first], op.getNewStates()[state.first],
           node.decision.getStateFormat(state.index));
  }
  storages.push_back(node);
}

FloatType PrecisionGraph::getStoredFormat(Value value) const {
  if (FloatType format = stored.lookup(value))
    return format;
  return dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
}

void PrecisionGraph::addReaders() {
  firstReader.assign(nodes.size() + 1, 0);
  for (const PrecisionInput &input : inputs)
    if (input.producer)
      ++firstReader[*input.producer + 1];
  for (unsigned i = 0, e = nodes.size(); i < e; ++i)
    firstReader[i + 1] += firstReader[i];
  readers.resize(firstReader.back());
  std::vector<unsigned> next(firstReader.begin(), firstReader.end() - 1);
  for (unsigned i = 0, e = nodes.size(); i < e; ++i)
    for (const PrecisionInput &input : getInputs(i))
      if (input.producer)
        readers[next[*input.producer]++] = i;
}

std::optional<unsigned> PrecisionGraph::find(Operation *op) const {
  if (nodes.empty() || !op || op->getBlock() != nodes.front().op->getBlock())
    return std::nullopt;
  auto found = llvm::partition_point(nodes, [&](const PrecisionNode &node) {
    return const_cast<PrecisionNode &>(node).op->isBeforeInBlock(op);
  });
  if (found == nodes.end() || found->op != op)
    return std::nullopt;
  return found - nodes.begin();
}

ArrayRef<PrecisionInput> PrecisionGraph::getInputs(unsigned node) const {
  return ArrayRef(inputs).slice(firstInput[node],
                                firstInput[node + 1] - firstInput[node]);
}

ArrayRef<unsigned> PrecisionGraph::getReaders(unsigned node) const {
  return ArrayRef(readers).slice(firstReader[node],
                                 firstReader[node + 1] - firstReader[node]);
}

void PrecisionGraph::setRule(unsigned index, const PolicyRule *rule) {
  nodes[index].rule = rule;
  settle(index);
  for (unsigned reader : getReaders(index))
    if (isa<SaveOp>(*nodes[reader].op))
      settle(reader);
}

void PrecisionGraph::setPin(unsigned index, bool isPinned) {
  nodes[index].isPinned = isPinned;
  settle(index);
}

/// Finds the formats that cannot represent an operand or a result of the node.
void PrecisionGraph::addUnsuitable(unsigned index) {
  std::vector<UnsuitableFormat> found;
  auto addAll = [&](ArrayRef<UnsuitableFormat> unsuitable) {
    for (const UnsuitableFormat &one : unsuitable)
      if (llvm::none_of(found, [&](const UnsuitableFormat &other) {
            return other.format == one.format;
          }))
        found.push_back(one);
  };
  PrecisionOpInterface op = nodes[index].op;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    if (op.getOperandFormat(number) == FormatRole::Chosen ||
        (policy.narrowsBiases() && isBias(op, number)))
      addAll(constants.find(operand));
  }
  if (evidence) {
    for (OpResult result : op->getResults())
      addAll(evidence->findUnsuitable(result));
    for (const PrecisionInput &input : getInputs(index))
      addAll(evidence->findUnsuitable(input.value));
  }
  if (!found.empty())
    unsuitable[index] = std::move(found);
}

SmallVector<FormatEvidence, 1> PrecisionGraph::getEvidence(Value value) const {
  return evidence ? evidence->find(value) : SmallVector<FormatEvidence, 1>();
}

/// Whether a decision chooses the format of `value`.
static bool isChosen(Value value) {
  auto result = dyn_cast<OpResult>(value);
  auto maker = result ? dyn_cast<PrecisionOpInterface>(result.getOwner())
                      : PrecisionOpInterface();
  return maker &&
         maker.getResultFormat(result.getResultNumber()) == FormatRole::Chosen;
}

/// Returns the node that computed a saved value, before its shape was changed.
std::optional<unsigned>
PrecisionGraph::findProducer(const PrecisionInput &input) const {
  std::optional<unsigned> maker = input.producer;
  while (maker && !nodes[*maker].rule) {
    auto kernel = dyn_cast<KernelOpInterface>(*nodes[*maker].op);
    if (!kernel || kernel.getSchedule() != Schedule::View)
      break;
    ArrayRef<PrecisionInput> inputs = getInputs(*maker);
    if (inputs.size() != 1)
      break;
    maker = inputs.front().producer;
  }
  return maker;
}

/// Sets the saved format of a `save`: the rule of the value's producer decides
/// it.
void PrecisionGraph::settleSavedFormat(unsigned index) {
  for (const PrecisionInput &input : getInputs(index))
    if (std::optional<unsigned> maker = findProducer(input);
        const PolicyRule *made = maker ? nodes[*maker].rule : nullptr) {
      if (!made->settings.saved)
        continue;
      auto format = dyn_cast<QuantizedAttr>(made->settings.saved);
      // Secondary results, such as statistics, are small.
      if (format && !isChosen(input.value))
        continue;
      nodes[index].savedRule = made;
      nodes[index].savedFormat = format;
      if (auto type = dyn_cast<TypeAttr>(made->settings.saved))
        nodes[index].result = cast<FloatType>(type.getValue());
    }
}

void PrecisionGraph::settle(unsigned index) {
  static const PolicySettings kNone;
  PrecisionNode &node = nodes[index];
  const PolicySettings &settings =
      node.rule && !node.isPinned ? node.rule->settings : kNone;
  node.savedRule = nullptr;
  node.savedFormat = {};
  node.precisionClass =
      settings.precisionClass.value_or(node.op.getPrecisionClass());
  node.compute = settings.compute;
  node.accumulate = settings.accumulate;
  node.result = settings.result;
  if (node.isPinned) {
    PrecisionAttr pin = node.op.getPrecisionAttr();
    node.compute = pin.getCompute();
    node.accumulate = pin.getAccumulate();
    node.result = pin.getResult();
  } else if (isa<SaveOp>(*node.op) && !node.result) {
    settleSavedFormat(index);
  }
  applyUnsuitable(index);
  bool isRead = node.result && !isa<SaveOp>(*node.op);
  node.settled = isRead ? node.result : node.compute;
}

/// Makes a node wide if narrow formats cannot represent its constants or
/// recorded values, unless a pin or a rule of the user decided it.
void PrecisionGraph::applyUnsuitable(unsigned index) {
  PrecisionNode &node = nodes[index];
  auto isUsers = [](const PolicyRule *rule) { return rule && rule->isUser; };
  bool isFree =
      !node.isPinned && !isUsers(node.rule) && !isUsers(node.savedRule);
  node.unsuitable = {};
  if (auto found = unsuitable.find(index); isFree && found != unsuitable.end())
    node.unsuitable = found->second;
  node.fitsNowhere =
      !node.unsuitable.empty() && node.unsuitable.size() == numNarrow;
  if (node.fitsNowhere)
    node.precisionClass = PrecisionClass::Deny;
  if (node.fitsNowhere || !node.fits(node.compute) || !node.fits(node.result))
    node.compute = node.accumulate = node.result = {}, node.savedFormat = {};
}
