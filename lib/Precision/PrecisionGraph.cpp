//===- PrecisionGraph.cpp - What an assigner decides about ----------------===//

#include "binade/Precision/PrecisionGraph.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

PrecisionGraph::PrecisionGraph(func::FuncOp step, const Policy &policy)
    : policy(policy), matcher(policy.rules, step) {
  addNodes(step);
  for (auto op : step.front().getOps<OptimizerUpdateOp>())
    addStorage(op);
  addInputs();
  addReaders();
  if (policy.evidence) {
    addRanges(step);
    lossScale = findLossScale();
    findEvidence();
  }
  for (unsigned i = 0, e = nodes.size(); i < e; ++i)
    settle(i);
}

void PrecisionGraph::addNodes(func::FuncOp step) {
  Block &block = step.front();
  nodes.reserve(llvm::range_size(block.getOperations()));
  for (auto op : block.getOps<PrecisionOpInterface>()) {
    if (!hasChosenFormat(op))
      continue;
    PrecisionAttr decision = op.getPrecisionAttr();
    PrecisionNode node;
    node.op = op;
    node.isPinned = decision && decision.isPin();
    node.rule = matcher.find(op);
    nodes.push_back(node);
  }
}

bool mlir::binade::areAlike(StorageAttr lhs, StorageAttr rhs) {
  auto getFormats = [](StorageAttr decision) {
    auto unlessWide = [](FloatType format) {
      return !format || format.isF32() ? FloatType() : format;
    };
    if (!decision)
      return std::tuple(FloatType(), Master::None, FloatType());
    return std::tuple(unlessWide(decision.getParameter()), decision.getMaster(),
                      unlessWide(decision.getStates()));
  };
  return getFormats(lhs) == getFormats(rhs);
}

void PrecisionGraph::addStorage(OptimizerUpdateOp op) {
  StorageNode node{op, nullptr, op.getStorageAttr()};
  if (!node.decision || !node.decision.isPin()) {
    node.rule = matcher.find(op);
    node.decision = {};
  }
  if (node.rule) {
    const PolicySettings &settings = node.rule->settings;
    node.decision =
        StorageAttr::get(op.getContext(), settings.parameter,
                         settings.master.value_or(Master::None), settings.state,
                         StringAttr::get(op.getContext(), node.rule->origin));
  }
  auto keep = [&](Value before, Value after, FloatType format) {
    if (format)
      stored[before] = stored[after] = format;
  };
  if (node.decision) {
    keep(op.getParameter(), op.getNewParameter(), node.decision.getParameter());
    for (auto [before, after] :
         llvm::zip(op.getRuleStates(), op.getNewStates()))
      keep(before, after, node.decision.getStates());
  }
  storages.push_back(node);
}

FloatType PrecisionGraph::getStoredFormat(Value value) const {
  if (FloatType format = stored.lookup(value))
    return format;
  return dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
}

void PrecisionGraph::addInputs() {
  firstInput.reserve(nodes.size() + 1);
  inputs.reserve(2 * nodes.size());
  DenseMap<Value, unsigned> numbers;
  numbers.reserve(nodes.size());
  std::vector<std::optional<unsigned>> producers;
  producers.reserve(nodes.size());
  auto number = [&](Value value, std::optional<unsigned> producer) {
    auto [entry, isNew] = numbers.try_emplace(value, producers.size());
    if (isNew)
      producers.push_back(producer);
    return entry->second;
  };
  for (unsigned i = 0, e = nodes.size(); i < e; ++i) {
    PrecisionOpInterface op = nodes[i].op;
    firstInput.push_back(inputs.size());
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = operand.get();
      if (op.getOperandFormat(operand.getOperandNumber()) !=
              FormatRole::Chosen ||
          matchPattern(value, m_Constant()))
        continue;
      unsigned found = number(value, std::nullopt);
      inputs.push_back({value, found, producers[found]});
    }
    for (OpResult result : op->getResults())
      if (op.getResultFormat(result.getResultNumber()) == FormatRole::Chosen)
        number(result, i);
  }
  firstInput.push_back(inputs.size());
  numValues = producers.size();
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

PolicySettings PrecisionGraph::findSettings(unsigned index) {
  PrecisionNode &node = nodes[index];
  if (node.isPinned) {
    PrecisionAttr pin = node.op.getPrecisionAttr();
    PolicySettings settings;
    settings.compute = pin.getCompute();
    settings.accumulate = pin.getAccumulate();
    settings.result = pin.getResult();
    return settings;
  }
  PolicySettings settings = node.rule ? node.rule->settings : PolicySettings();
  if (isa<SaveOp>(*node.op) && !settings.result)
    // How a value waits is said where it is made.
    for (const PrecisionInput &input : getInputs(index))
      if (const PolicyRule *made =
              input.producer ? nodes[*input.producer].rule : nullptr;
          made && made->settings.saved) {
        node.savedRule = made;
        settings.result = made->settings.saved;
      }
  return settings;
}

void PrecisionGraph::settle(unsigned index) {
  PrecisionNode &node = nodes[index];
  node.savedRule = nullptr;
  PolicySettings settings = findSettings(index);
  node.precisionClass =
      settings.precisionClass.value_or(node.op.getPrecisionClass());
  node.compute = settings.compute;
  node.accumulate = settings.accumulate;
  node.result = settings.result;
  node.evidence = findMisfit(index);
  if (!node.evidence.empty()) {
    node.precisionClass = PrecisionClass::Deny;
    node.compute = node.accumulate = node.result = {};
  }
  bool isRead = node.result && !isa<SaveOp>(*node.op);
  node.settled = isRead ? node.result : node.compute;
}

//===----------------------------------------------------------------------===//
// Evidence
//===----------------------------------------------------------------------===//

/// Pins and the rules of a user go before what was recorded.
StringRef PrecisionGraph::findMisfit(unsigned index) const {
  const PrecisionNode &node = nodes[index];
  auto isUsers = [](const PolicyRule *rule) { return rule && rule->isUser; };
  return node.isPinned || isUsers(node.rule) || isUsers(node.savedRule)
             ? StringRef()
             : misfits.lookup(index);
}

void PrecisionGraph::addRanges(func::FuncOp step) {
  for (const NamedValue &named : nameValues(step))
    if (auto found = policy.evidence->ranges.find(named.name);
        found != policy.evidence->ranges.end())
      ranges[named.value] = &found->second;
}

/// Whether `value` is a gradient, which the scale of the loss multiplies.
static bool isScaled(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer && getPhase(producer) == Phase::Backward;
}

double PrecisionGraph::findLossScale() const {
  if (!policy.lossScaling)
    return 1.0;
  if (policy.lossScaling->fixed)
    return *policy.lossScaling->fixed;
  double scale = policy.lossScaling->init;
  for (auto [value, range] : ranges)
    while (isScaled(value) && range->nonFinite == 0 && scale > 0 &&
           range->getOverflow(policy.narrow, scale) > 0)
      scale *= policy.lossScaling->backoff;
  return scale;
}

static std::string formatShare(double share) {
  return llvm::formatv("{0}%", llvm::format("%.3g", 100 * share));
}

SmallVector<FormatEvidence, 1> PrecisionGraph::getEvidence(Value value) const {
  SmallVector<FormatEvidence, 1> evidence;
  if (auto save = value.getDefiningOp<SaveOp>())
    value = save.getX();
  const RecordedRange *range = ranges.lookup(value);
  if (!range)
    return evidence;
  double scale = isScaled(value) ? lossScale : 1.0;
  for (FloatType format : ArrayRef(getFormatChoices(policy)).drop_front())
    evidence.push_back({format, range, scale,
                        range->getUnderflow(format, scale),
                        range->getOverflow(format, scale)});
  return evidence;
}

/// How `value` does not fit into a narrow format, in words; empty where it
/// does, or where nothing is known.
std::string PrecisionGraph::explainMisfit(Value value) const {
  EvidenceLimits limits = policy.limits.value_or(EvidenceLimits());
  for (const FormatEvidence &seen : getEvidence(value))
    for (auto [what, share, limit] :
         {std::tuple("overflows", seen.overflow, limits.overflow),
          std::tuple("underflows", seen.underflow, limits.underflow)})
      if (share > limit)
        return llvm::formatv("{0}: {1} of {2} {3} in {4}, more than {5}",
                             policy.evidence->name, formatShare(share),
                             describe(value), what, seen.format,
                             formatShare(limit));
  return "";
}

void PrecisionGraph::findEvidence() {
  DenseMap<Value, StringRef> reasons;
  auto explain = [&](Value value) {
    auto [entry, isNew] = reasons.try_emplace(value);
    if (isNew)
      entry->second =
          StringAttr::get(value.getContext(), explainMisfit(value)).getValue();
    return entry->second;
  };
  for (unsigned i = 0, e = nodes.size(); i < e; ++i) {
    StringRef reason;
    for (OpResult result : nodes[i].op->getResults())
      if (reason.empty())
        reason = explain(result);
    for (const PrecisionInput &input : getInputs(i))
      if (reason.empty())
        reason = explain(input.value);
    if (!reason.empty())
      misfits[i] = reason;
  }
}
