//===- ExplainJson.cpp - Precision decisions as JSON ----------------------===//

#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"
#include "binade/IR/QuantizedOperands.h"
#include "binade/IR/ScaledOperand.h"
#include "binade/Precision/Describe.h"
#include "binade/Precision/Products.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

static llvm::json::Array writeCasts(const Explanation &explanation,
                                    Operation *op) {
  llvm::json::Array casts;
  for (const CastReport *report : explanation.getCasts(op))
    casts.push_back(llvm::json::Object{
        {"of", report->value.getDefiningOp() == op
                   ? std::string("result")
                   : llvm::json::fixUTF8(describe(report->value))},
        {"from", llvm::to_string(report->from)},
        {"to", llvm::to_string(report->to)},
        {"bytes", report->getBytes()},
        {"readers", static_cast<int64_t>(report->readers.size())}});
  return casts;
}

static llvm::json::Array writeEvidence(const PrecisionGraph &graph,
                                       Operation *op) {
  llvm::json::Array array;
  for (Value result : op->getResults())
    for (const FormatEvidence &seen : graph.getEvidence(result))
      array.push_back(
          llvm::json::Object{{"smallest", seen.range->smallest},
                             {"amax", seen.range->amax},
                             {"scale", seen.scale},
                             {"format", llvm::to_string(seen.format)},
                             {"underflow", seen.underflow},
                             {"overflow", seen.overflow}});
  return array;
}

static llvm::json::Value writeFlip(Explanation &explanation, unsigned node) {
  std::optional<Flip> flip = explanation.findFlip(node);
  if (!flip)
    return nullptr;
  llvm::json::Object object{
      {"ops", llvm::json::Array(ArrayRef(flip->flipped))}};
  if (flip->line.empty())
    object["pin"] = "remove";
  else
    object["rule"] = llvm::json::fixUTF8(flip->line);
  return object;
}

static llvm::json::Object writeFallback(const Fallback &fallback) {
  llvm::json::Object object{{"decided", fallback.decided},
                            {"computed", fallback.computed},
                            {"reason", fallback.reason}};
  if (!fallback.nearest.empty())
    object["nearest"] = fallback.nearest;
  return object;
}

/// The names of the values of a step, as recorded ranges have them; empty if no
/// operand is scaled.
using ValueNames = DenseMap<Value, std::string>;

static ValueNames getNames(const Explanation &explanation,
                           func::FuncOp function) {
  ValueNames names;
  if (explanation.getGraph().getScales())
    for (NamedValue &named : nameValues(function))
      names[named.value] = std::move(named.name);
  return names;
}

static llvm::json::Array writeOperands(Operation *op, PrecisionAttr decision,
                                       const ValueNames &names) {
  llvm::json::Array formats;
  for (auto [index, format] : llvm::enumerate(decision.getOperands())) {
    if (auto scaled = getScaledOperand(decision, index)) {
      Value value = op->getOperand(index);
      if (auto save = value.getDefiningOp<SaveOp>())
        value = save.getX();
      formats.push_back(llvm::json::Object{
          {"format", llvm::to_string(scaled->format)},
          {"exponent", scaled->exponent},
          {"rule", scaled->rule},
          {"value", llvm::json::fixUTF8(names.lookup(value))}});
      continue;
    }
    formats.push_back(isa<UnitAttr>(format)
                          ? llvm::json::Value(nullptr)
                          : llvm::json::Value(describeFormat(format)));
  }
  return formats;
}

static llvm::json::Object writeOp(Explanation &explanation, unsigned node,
                                  const ValueNames &names) {
  PrecisionOpInterface op = explanation.getGraph().getNodes()[node].op;
  PrecisionAttr decision = explanation.getDecision(node);
  llvm::json::Object object{
      {"id", node},
      {"op", op->getName().stripDialect()},
      {"name", llvm::json::fixUTF8(getNodeName(op))},
      {"phase", stringifyPhase(getPhase(op))},
      {"format", llvm::to_string(getComputed(decision))},
      {"result", llvm::to_string(decision.getResult())},
      {"rule", decision.isPin()
                   ? "pin"
                   : llvm::json::fixUTF8(decision.getRule().getValue())},
      {"class", stringifyPrecisionClass(
                    explanation.getGraph().getNodes()[node].precisionClass)},
      {"casts", writeCasts(explanation, op)},
      {"flip", writeFlip(explanation, node)}};
  if (FloatType sums = decision.getAccumulate())
    object["accumulate"] = llvm::to_string(sums);
  if (!describeQuantizedOperands(decision).empty())
    object["product"] =
        kLayerProducts[size_t(explanation.getGraph().getNodes()[node].product)];
  if (decision.getOperands())
    object["operands"] = writeOperands(op, decision, names);
  if (TransformAttr transform = decision.getTransform())
    object["transform"] = llvm::json::Object{
        {"hadamard", transform.getHadamard()},
        {"signs", stringifyHadamardSigns(transform.getSigns())}};
  if (AccumulationAttr accumulation = decision.getAccumulation())
    object["accumulation"] =
        llvm::json::Object{{"bits", accumulation.getBits()},
                           {"step", accumulation.getStep()},
                           {"promote", accumulation.getPromote()}};
  if (ClampAttr clamp = decision.getClamp())
    object["clamp"] = stringifyClamp(clamp.getValue());
  if (llvm::json::Array seen = writeEvidence(explanation.getGraph(), op);
      !seen.empty())
    object["evidence"] = std::move(seen);
  if (const Fallback *fallback = explanation.getFallback(op))
    object["plan"] = writeFallback(*fallback);
  if (std::string reason = explanation.getReason(node); !reason.empty())
    object["reason"] = llvm::json::fixUTF8(reason);
  if (Value from = explanation.getChoice(node).from)
    if (auto producer = explanation.getGraph().find(from.getDefiningOp()))
      object["from"] = *producer;
  return object;
}

static llvm::json::Object writeCount(const StepCost::Count &count) {
  return llvm::json::Object{{"ops", count.ops},
                            {"casts", count.casts},
                            {"cast_bytes", count.castBytes},
                            {"result_bytes", count.bytes}};
}

static llvm::json::Object writeSummary(const Explanation &explanation,
                                       ArrayRef<RuleCost> rules) {
  StepCost cost = explanation.getCost();
  llvm::json::Array counts, lines;
  for (const auto &[key, count] : cost.counts) {
    llvm::json::Object object = writeCount(count);
    object["phase"] = stringifyPhase(key.first);
    object["format"] = key.second;
    counts.push_back(std::move(object));
  }
  for (const RuleCost &rule : rules)
    lines.push_back(
        llvm::json::Object{{"rule", llvm::json::fixUTF8(rule.rule->origin)},
                           {"changes", rule.changed},
                           {"narrow_ops", rule.narrowOps},
                           {"casts", rule.casts},
                           {"cast_bytes", rule.castBytes},
                           {"result_bytes", rule.bytes}});
  llvm::json::Object macs;
  for (const auto &[format, count] : countMacsByFormat(explanation))
    macs[format] = count;
  return llvm::json::Object{{"formats", std::move(counts)},
                            {"multiply_adds", std::move(macs)},
                            {"total", writeCount(cost.total)},
                            {"rules", std::move(lines)}};
}

llvm::json::Value mlir::binade::toJson(StringRef model,
                                       Explanation &explanation,
                                       ArrayRef<unsigned> nodes,
                                       ArrayRef<RuleCost> rules,
                                       func::FuncOp function) {
  const Policy &policy = explanation.getGraph().getPolicy();
  llvm::json::Array ops, gradients, parameters, states;
  ValueNames names = getNames(explanation, function);
  for (unsigned node : nodes)
    ops.push_back(writeOp(explanation, node, names));
  OpRoles roles(function);
  for (auto [gradient, parameter] : roles.getGradients()) {
    auto port =
        getArgument(function, cast<BlockArgument>(parameter).getArgNumber());
    llvm::json::Object object{
        {"parameter", llvm::json::fixUTF8(port->name)},
        {"format", llvm::to_string(explanation.getFormat(gradient))}};
    if (auto node = explanation.getGraph().find(gradient.getDefiningOp()))
      object["op"] = *node;
    gradients.push_back(std::move(object));
  }
  DenseMap<Value, KeptValue> kept = getKeptValues(explanation);
  for (Role role : {Role::Parameter, Role::State})
    for (Port port : getArguments(function, role)) {
      Value value = function.getArgument(port.index);
      llvm::json::Object object{
          {"name", llvm::json::fixUTF8(port.name)},
          {"format", describeFormat(explanation, value, kept[value])}};
      if (StorageAttr storage = kept[value].decision) {
        object["rule"] =
            storage.isPin() ? "pin"
                            : llvm::json::fixUTF8(storage.getRule().getValue());
        if (role == Role::Parameter)
          object["master"] = stringifyMaster(storage.getMaster());
      }
      (role == Role::Parameter ? parameters : states)
          .push_back(std::move(object));
    }
  return llvm::json::Object{
      {"model", llvm::json::fixUTF8(model)},
      {"policy",
       llvm::json::Object{{"name", policy.name},
                          {"hash", policy.source.getHash().getValue()}}},
      {"ops", std::move(ops)},
      {"gradients", std::move(gradients)},
      {"parameters", std::move(parameters)},
      {"states", std::move(states)},
      {"summary", writeSummary(explanation, rules)}};
}
