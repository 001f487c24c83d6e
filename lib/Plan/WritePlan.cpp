//===- WritePlan.cpp - Writer of plans to JSON ----------------------------===//

#include "AlarmFields.h"
#include "RecordJson.h"
#include "WriteFields.h"
#include "binade/Container/Json.h"
#include "binade/Plan/PlanJson.h"

using namespace binade;
using namespace binade::plan;
using nlohmann::json;

template <typename... Alternatives> struct Overloaded : Alternatives... {
  using Alternatives::operator()...;
};
template <typename... Alternatives>
Overloaded(Alternatives...) -> Overloaded<Alternatives...>;

static json write(const Buffer &buffer) {
  json object = {{"name", buffer.name},   {"offset", buffer.offset},
                 {"bytes", buffer.bytes}, {"dtype", name(buffer.dtype)},
                 {"shape", buffer.shape}, {"category", name(buffer.category)}};
  if (buffer.slot != 0)
    object["slot"] = buffer.slot;
  if (buffer.shard)
    object["shard"] = {{"shape", buffer.shard->shape},
                       {"first", buffer.shard->first}};
  return object;
}

static void writeOptional(json &object, const char *key,
                          std::optional<double> number) {
  if (number)
    object[key] = *number;
}

static json write(const Init &init) {
  return std::visit(
      Overloaded{[](const NoInit &) -> json { return nullptr; },
                 [](const ExternalInit &external) -> json {
                   json object = {{"kind", "external"},
                                  {"file", external.file},
                                  {"offset", external.offset},
                                  {"bytes", external.bytes}};
                   if (!external.sha256.empty())
                     object["sha256"] = external.sha256;
                   return object;
                 },
                 [](const BundleInit &bundle) -> json {
                   return {{"kind", "bundle"}, {"tensor", bundle.tensor}};
                 },
                 [](const RandomInit &random) -> json {
                   return {{"kind", "random"},
                           {"distribution",
                            random.distribution == RandomInit::Normal
                                ? "normal"
                                : "uniform"},
                           {"origin", random.origin},
                           {"scale", random.scale}};
                 },
                 [](const FillInit &fill) -> json {
                   return {{"kind", "fill"}, {"value", fill.value}};
                 },
                 [](const CompanionInit &companionInit) -> json {
                   return {{"kind", "beside"},
                           {"parameter", companionInit.parameter},
                           {"master", name(companionInit.master)}};
                 }},
      init);
}

static json write(const Port &port) {
  json object = {
      {"role", name(port.role)}, {"name", port.name}, {"buffer", port.buffer}};
  if (!std::holds_alternative<NoInit>(port.init))
    object["init"] = write(port.init);
  if (port.check) {
    json &check = object["check"];
    check = {{"low", port.check->low}, {"high", port.check->high}};
    if (port.check->ignored)
      check["ignored"] = *port.check->ignored;
  }
  if (port.range) {
    json &range = object["range"] = json::object();
    writeOptional(range, "min", port.range->min);
    writeOptional(range, "max", port.range->max);
    writeOptional(range, "below", port.range->below);
  }
  writeFlag(object, "frozen", port.frozen);
  if (port.every != 0)
    object["every"] = port.every;
  return object;
}

static json write(const PolicyText &policy) {
  json object = {
      {"name", policy.name}, {"hash", policy.hash}, {"text", policy.text}};
  if (!policy.costs.empty())
    object["costs"] = policy.costs;
  return object;
}

static json write(const QuantizedStates &quantized) {
  json states = json::array();
  for (const QuantizedStates::State &state : quantized.states)
    states.push_back({{"parts", state.parts}, {"shape", state.shape}});
  return {{"format", quantized.format}, {"states", std::move(states)}};
}

static json write(const DeviceKernel &kernel) {
  json entries = json::array();
  for (const DeviceKernel::Entry &entry : kernel.entries)
    entries.push_back({{"symbol", entry.symbol},
                       {"grid", entry.grid},
                       {"block", entry.block}});
  json object = {{"name", kernel.name},
                 {"module", kernel.module},
                 {"entries", std::move(entries)}};
  if (!kernel.alignments.empty())
    object["alignments"] = kernel.alignments;
  return object;
}

template <typename Element>
static json writeAll(const std::vector<Element> &elements) {
  json list = json::array();
  for (const Element &element : elements)
    list.push_back(write(element));
  return list;
}

std::string
binade::writeQuantizedStates(const std::vector<QuantizedStates> &states) {
  return writeAll(states).dump();
}

std::string binade::writePlan(const Plan &plan) {
  json ledger = json::object();
  for (const auto &[category, bytes] : plan.ledger)
    ledger[std::string(name(category))] = bytes;
  json object = {{"version", kPlanVersion},
                 {"model", plan.model},
                 {"policy",
                  {{"name", plan.policy},
                   {"hash", plan.policyHash},
                   {"texts", writeAll(plan.policyTexts)}}},
                 {"dims", plan.dims},
                 {"ops", plan.ops},
                 {"casts", plan.casts},
                 {"threads", plan.threads},
                 {"arena_bytes", plan.arenaBytes},
                 {"ledger", std::move(ledger)},
                 {"buffers", writeAll(plan.buffers)},
                 {"ports", writeAll(plan.ports)},
                 {"records", writeRecords(plan.records)}};
  writeText(object, "computation", plan.computation);
  if (!plan.quantizedStates.empty())
    object["quantized_states"] = writeAll(plan.quantizedStates);
  if (!plan.chip.empty()) {
    object["chip"] = plan.chip;
    object["device_kernels"] = writeAll(plan.deviceKernels);
  }
  if (plan.batches != 1)
    object["batches"] = plan.batches;
  if (!plan.accumulation.empty())
    object["accumulation"] = writeRecords(plan.accumulation);
  if (!plan.evaluation.empty())
    object["evaluation"] = writeRecords(plan.evaluation);
  if (!plan.observation.empty())
    object["observation"] = writeRecords(plan.observation);
  writeFlag(object, "skips_non_finite", plan.skipsNonFinite);
  writeAlarms(object, plan.alarms);
  if (plan.shard)
    object["shard"] = {{"rank", plan.shard->rank}, {"size", plan.shard->size}};
  return object.dump();
}
