//===- Explain.cpp - Explanations of precision decisions ------------------===//

#include "binade/Precision/Explain.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Names.h"
#include "binade/IR/ScaledOperand.h"
#include "binade/Precision/Biases.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

static int64_t getBytes(Type type, FloatType element) {
  return getByteSize(cast<ShapedType>(type).clone(getStorageFormat(element)));
}

int64_t CastReport::getBytes() const {
  return ::getBytes(value.getType(), from) + ::getBytes(value.getType(), to);
}

FailureOr<Explanation> Explanation::create(func::FuncOp step,
                                           const Policy &policy) {
  Explanation explanation(step, policy);
  const PrecisionGraph &graph = explanation.graph;
  explanation.choices = explanation.assigner->assign(graph);
  DecisionBuilder builder(graph);
  for (auto [index, node] : llvm::enumerate(graph.getNodes())) {
    PrecisionAttr decision = builder.build(index, explanation.choices[index]);
    if (!decision)
      return failure();
    explanation.decisions.push_back(decision);
    explanation
        .namesakes[{node.op->getName().stripDialect(), getPhase(node.op),
                    getNodeName(node.op)}]
        .push_back(index);
  }
  explanation.findCasts();
  return explanation;
}

std::string Explanation::getReason(unsigned node) const {
  const Choice &choice = choices[node];
  bool isSettled = graph.getNodes()[node].compute != nullptr;
  bool lacksCodes =
      lacksQuantizedOperands(graph.getNodes()[node], decisions[node]);
  std::string text;
  if (lacksCodes)
    text = choices[node].quantizes
               ? "its operands are not quantized, because it computes in a "
                 "wide format"
               : "its operands are not quantized, because that is slower";
  if (std::string missing =
          explainMissingTransform(graph.getNodes()[node], decisions[node]);
      !missing.empty())
    text = "its operands are not transformed, because it " + missing;
  if (isSettled || choice.reason.empty())
    return text;
  if (!text.empty())
    text += "; ";
  text += choice.reason;
  if (choice.from)
    text += " " + describe(choice.from);
  if (!graph.getNodes()[node].fitsNowhere)
    for (const UnsuitableFormat &one : graph.getNodes()[node].unsuitable)
      text += ("; " + one.reason).str();
  return text;
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

FloatType Explanation::getFormat(Value value) const {
  if (FloatType format = formats.lookup(value))
    return format;
  return graph.getStoredFormat(value);
}

/// Finds the casts that `binade-materialize-precision` will create.
void Explanation::findCasts() {
  auto wide = FloatType(Float32Type::get(step.getContext()));
  for (auto [node, decision] : llvm::zip(graph.getNodes(), decisions)) {
    PrecisionOpInterface op = node.op;
    for (OpResult result : op->getResults()) {
      FormatRole role = op.getResultFormat(result.getResultNumber());
      if (role != FormatRole::Fixed)
        formats[result] =
            role == FormatRole::Chosen ? decision.getResult() : wide;
    }
  }
  DenseMap<std::pair<Value, FloatType>, unsigned> known;
  step.walk([&](Operation *op) {
    std::optional<unsigned> node = graph.find(op);
    PrecisionAttr decision = node ? decisions[*node] : PrecisionAttr();
    // An update reads its parameter and states in any format.
    auto update = dyn_cast<OptimizerUpdateOp>(op);
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = operand.get();
      if (update && (value == update.getParameter() ||
                     llvm::is_contained(update.getStates(), value)))
        continue;
      auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
      if (!type || !isa<ShapedType>(value.getType()))
        continue;
      FloatType to =
          isa<func::ReturnOp>(op) ? graph.getStoredFormat(value) : type;
      if (decision) {
        FormatRole role = cast<PrecisionOpInterface>(op).getOperandFormat(
            operand.getOperandNumber());
        if (role == FormatRole::Fixed)
          continue;
        to = role == FormatRole::Chosen
                 ? decision.getCompute()
                 : getWideFormat(decision, operand.getOperandNumber());
        QuantizedAttr codes = decision.getOperand(operand.getOperandNumber());
        if (codes && codes.getFormat())
          to = codes.getFormat();
        if (auto scaled =
                getScaledOperand(decision, operand.getOperandNumber()))
          to = scaled->format;
      }
      FloatType from = getFormat(value);
      SplatElementsAttr splat;
      if (from == to || matchPattern(value, m_Constant(&splat)))
        continue;
      auto [entry, isNew] = known.try_emplace({value, to}, casts.size());
      if (isNew) {
        casts.push_back({value, from, to, {}});
        if (Operation *producer = value.getDefiningOp())
          castsOfOps[producer].push_back(entry->second);
      }
      std::vector<Operation *> &readers = casts[entry->second].readers;
      if (readers.empty() || readers.back() != op) {
        readers.push_back(op);
        castsOfOps[op].push_back(entry->second);
      }
    }
  });
}

std::vector<const CastReport *> Explanation::getCasts(Operation *op) const {
  std::vector<const CastReport *> found;
  for (unsigned index : castsOfOps.lookup(op))
    found.push_back(&casts[index]);
  return found;
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

StepCost Explanation::getCost() const {
  StepCost cost;
  FloatType wide = graph.getPolicy().wide;
  auto add = [&](Phase phase, FloatType format, auto count) {
    count(cost.counts[{phase, llvm::to_string(format)}]);
    count(cost.total);
  };
  for (auto [node, decision] : llvm::zip(graph.getNodes(), decisions)) {
    PrecisionOpInterface op = node.op;
    int64_t bytes = 0;
    for (OpResult result : op->getResults())
      if (op.getResultFormat(result.getResultNumber()) == FormatRole::Chosen)
        bytes += getBytes(result.getType(), decision.getResult());
    add(getPhase(op), decision.getCompute(), [&](StepCost::Count &count) {
      ++count.ops;
      count.bytes += bytes;
    });
    if (decision.getCompute().getFPMantissaWidth() < wide.getFPMantissaWidth())
      ++cost.narrowOps;
  }
  for (const CastReport &report : casts)
    add(getPhase(report.readers.front()), report.to,
        [&](StepCost::Count &count) {
          ++count.casts;
          count.castBytes += report.getBytes();
        });
  return cost;
}

FailureOr<std::vector<RuleCost>>
mlir::binade::getRuleCosts(func::FuncOp step, const Explanation &explanation) {
  const Policy &policy = explanation.getGraph().getPolicy();
  StepCost with = explanation.getCost();
  std::vector<RuleCost> costs;
  for (size_t i = 0, e = policy.rules.size(); i < e; ++i) {
    Policy others = policy;
    others.rules.erase(others.rules.begin() + i);
    FailureOr<Explanation> other = Explanation::create(step, others);
    if (failed(other))
      return failure();
    StepCost without = other->getCost();
    RuleCost cost{&policy.rules[i]};
    for (unsigned node = 0; node < explanation.getGraph().getNodes().size();
         ++node)
      cost.changed += getFormats(explanation.getDecision(node)) !=
                      getFormats(other->getDecision(node));
    for (auto [node, otherNode] :
         llvm::zip(explanation.getGraph().getStorages(),
                   other->getGraph().getStorages()))
      cost.changed += !areEquivalent(node.decision, otherNode.decision);
    cost.narrowOps = with.narrowOps - without.narrowOps;
    cost.casts = with.total.casts - without.total.casts;
    cost.castBytes = with.total.castBytes - without.total.castBytes;
    cost.bytes = with.total.bytes - without.total.bytes;
    costs.push_back(cost);
  }
  return costs;
}

//===----------------------------------------------------------------------===//
// Flips
//===----------------------------------------------------------------------===//

std::vector<unsigned> Explanation::compare() const {
  std::vector<Choice> changed = assigner->assign(graph);
  std::vector<unsigned> different;
  for (unsigned i = 0, e = changed.size(); i < e; ++i)
    if (getFormats(decisions[i]) != getFormats(graph, i, changed[i]))
      different.push_back(i);
  return different;
}

/// Returns the nodes that a rule about op, phase and name matches.
std::vector<unsigned> Explanation::getNamesakes(StringRef kind, StringRef name,
                                                Phase phase) const {
  std::vector<unsigned> found;
  auto first = namesakes.lower_bound({kind, phase, name});
  for (auto it = first; it != namesakes.end(); ++it) {
    auto [itsKind, itsPhase, itsName] = it->first;
    if (itsKind != kind || itsPhase != phase ||
        (!name.empty() && itsName != name))
      break;
    found.insert(found.end(), it->second.begin(), it->second.end());
  }
  return found;
}

Flip Explanation::tryRule(unsigned about, FloatType format) {
  PrecisionOpInterface op = graph.getNodes()[about].op;
  StringRef kind = op->getName().stripDialect(), name = getNodeName(op);
  Phase phase = getPhase(op);
  const Policy &policy = graph.getPolicy();
  PolicyRule rule;
  rule.isUser = true;
  std::string setting;
  if (policy.cut) { // The cut may ignore `allow`.
    rule.settings.compute = format;
    setting = "compute: " + llvm::to_string(format);
  } else {
    rule.settings.precisionClass =
        format == policy.narrow ? PrecisionClass::Allow : PrecisionClass::Deny;
    setting =
        ("class: " + stringifyPrecisionClass(*rule.settings.precisionClass))
            .str();
  }
  Flip flip;
  flip.line =
      ("{ match: { op: " + kind + ", phase: " + stringifyPhase(phase)).str();
  if (!name.empty())
    flip.line += ", name: " + ::binade::quoteGlob(name);
  flip.line += " }, " + setting + " }";

  std::vector<std::pair<unsigned, const PolicyRule *>> before;
  for (unsigned node : getNamesakes(kind, name, phase)) {
    before.emplace_back(node, graph.getNodes()[node].rule);
    graph.setRule(node, &rule);
  }
  flip.flipped = compare();
  for (auto [node, old] : before)
    graph.setRule(node, old);
  return flip;
}

Flip Explanation::tryWithoutPin(unsigned node) {
  Flip flip;
  graph.setPin(node, false);
  flip.flipped = compare();
  graph.setPin(node, true);
  return flip;
}

std::optional<Flip> Explanation::findFlip(unsigned index) {
  const PrecisionNode &node = graph.getNodes()[index];
  std::vector<Flip> flips;
  if (node.isPinned) {
    flips.push_back(tryWithoutPin(index));
  } else {
    SmallVector<FloatType> formats = getFormatChoices(graph.getPolicy());
    bool isWide = decisions[index].getCompute() == formats.front();
    FloatType other = formats[isWide ? 1 : 0];
    flips.push_back(tryRule(index, other));
    if (Value from = choices[index].from)
      if (std::optional<unsigned> producer = graph.find(from.getDefiningOp());
          producer && !graph.getNodes()[*producer].isPinned)
        flips.push_back(tryRule(*producer, other));
  }
  llvm::erase_if(flips, [&](const Flip &flip) {
    return !llvm::is_contained(flip.flipped, index);
  });
  if (flips.empty())
    return std::nullopt;
  return *std::min_element(flips.begin(), flips.end(),
                           [](const Flip &a, const Flip &b) {
                             return a.flipped.size() < b.flipped.size();
                           });
}
