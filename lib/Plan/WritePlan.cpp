//===- WritePlan.cpp - A plan as JSON -------------------------------------===//

#include "AlarmFields.h"
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
  return object;
}

static json write(const View &view) {
  json object = {{"buffer", view.buffer}};
  if (view.offset != 0)
    object["offset"] = view.offset;
  if (!view.strides.empty())
    object["strides"] = view.strides;
  if (!view.steps.empty())
    object["steps"] = view.steps;
  return object;
}

static json write(const std::vector<View> &views) {
  json list = json::array();
  for (const View &view : views)
    list.push_back(write(view));
  return list;
}

static void writeOptional(json &object, const char *key,
                          const std::optional<View> &view) {
  if (view)
    object[key] = write(*view);
}

static void writeOptional(json &object, const char *key,
                          std::optional<double> number) {
  if (number)
    object[key] = *number;
}

static void writeFlag(json &object, const char *key, bool value) {
  if (value)
    object[key] = true;
}

static void writeText(json &object, const char *key, const std::string &text) {
  if (!text.empty())
    object[key] = text;
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
                 [](const BesideInit &beside) -> json {
                   return {{"kind", "beside"},
                           {"parameter", beside.parameter},
                           {"master", name(beside.master)}};
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

static json write(const Launch &launch) {
  json segments = json::array();
  for (const Segment &segment : launch.segments) {
    json &object = segments.emplace_back();
    object = {{"operands", write(segment.operands)},
              {"extent", segment.extent}};
    if (!segment.kernel.empty())
      object["kernel"] = segment.kernel;
  }
  json object = {{"kind", "launch"},
                 {"kernel", launch.kernel},
                 {"grain", launch.grain},
                 {"segments", std::move(segments)}};
  writeFlag(object, "finish", launch.finish);
  if (!launch.finishOperands.empty())
    object["finish_operands"] = write(launch.finishOperands);
  return object;
}

static json write(const Matmul &matmul) {
  json object = {{"kind", "matmul"},
                 {"lhs", write(matmul.lhs)},
                 {"rhs", write(matmul.rhs)},
                 {"out", write(matmul.out)},
                 {"m", matmul.m},
                 {"n", matmul.n},
                 {"k", matmul.k}};
  if (!matmul.batch.empty())
    object["batch"] = matmul.batch;
  writeOptional(object, "lhs_scale", matmul.lhsScale);
  writeOptional(object, "rhs_scale", matmul.rhsScale);
  if (matmul.block)
    object["block"] = {matmul.block->m, matmul.block->n, matmul.block->k};
  writeOptional(object, "bias", matmul.bias);
  writeFlag(object, "accumulate", matmul.accumulate);
  writeFlag(object, "tf32", matmul.tf32);
  if (!matmul.algorithms.empty())
    object["algorithms"] = matmul.algorithms;
  writeText(object, "kernel", matmul.kernel);
  writeOptional(object, "scratch", matmul.scratch);
  writeOptional(object, "library_scratch", matmul.libraryScratch);
  return object;
}

static json write(const Attention &a) {
  json object = {{"kind", "attention"}, {"query", write(a.query)},
                 {"key", write(a.key)}, {"value", write(a.value)},
                 {"y", write(a.y)},     {"lse", write(a.lse)},
                 {"batch", a.batch},    {"queries", a.queries},
                 {"keys", a.keys},      {"depth", a.depth},
                 {"width", a.width},    {"scale", a.scale}};
  if (a.gradients)
    object["gradients"] = {{"dy", write(a.gradients->dy)},
                           {"dquery", write(a.gradients->dquery)},
                           {"dkey", write(a.gradients->dkey)},
                           {"dvalue", write(a.gradients->dvalue)}};
  writeFlag(object, "causal", a.causal);
  writeOptional(object, "scratch", a.scratch);
  writeText(object, "device_kernel", a.deviceKernel);
  return object;
}

static json write(const Convolution &c) {
  static constexpr const char *directions[] = {"forward", "input_grad",
                                               "weight_grad"};
  json object = {{"kind", "convolution"},
                 {"direction", directions[c.direction]},
                 {"x", write(c.x)},
                 {"weight", write(c.weight)},
                 {"y", write(c.y)},
                 {"batch", c.batch},
                 {"in_channels", c.inChannels},
                 {"out_channels", c.outChannels},
                 {"groups", c.groups},
                 {"input", c.input},
                 {"kernel", c.kernel},
                 {"output", c.output},
                 {"strides", c.strides},
                 {"dilations", c.dilations},
                 {"padding_low", c.paddingLow},
                 {"padding_high", c.paddingHigh}};
  writeOptional(object, "bias", c.bias);
  writeFlag(object, "channels_last", c.channelsLast);
  writeOptional(object, "scratch", c.scratch);
  writeOptional(object, "library_scratch", c.libraryScratch);
  writeText(object, "device_kernel", c.deviceKernel);
  return object;
}

static json write(const Copy &copy) {
  json object = {{"kind", "copy"},
                 {"from", write(copy.from)},
                 {"to", write(copy.to)},
                 {"sizes", copy.sizes}};
  writeText(object, "kernel", copy.kernel);
  return object;
}

static json write(const Fallback &fallback) {
  json object = {{"decided", fallback.decided},
                 {"computed", fallback.computed},
                 {"reason", fallback.reason}};
  writeText(object, "nearest", fallback.nearest);
  return object;
}

static json write(const std::vector<Record> &records);

static json write(const Loop &loop) {
  json object = {
      {"kind", "loop"}, {"count", loop.count}, {"body", write(loop.body)}};
  if (loop.slots != 0)
    object["slots"] = loop.slots;
  return object;
}

static json write(const std::vector<Record> &records) {
  json list = json::array();
  for (const Record &record : records) {
    json object =
        std::visit([](const auto &body) { return write(body); }, record.body);
    if (!record.label.empty())
      object["label"] = record.label;
    if (record.fallback)
      object["fallback"] = write(*record.fallback);
    list.push_back(std::move(object));
  }
  return list;
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
                 {"records", write(plan.records)}};
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
    object["accumulation"] = write(plan.accumulation);
  if (!plan.evaluation.empty())
    object["evaluation"] = write(plan.evaluation);
  if (!plan.observation.empty())
    object["observation"] = write(plan.observation);
  writeFlag(object, "skips_non_finite", plan.skipsNonFinite);
  writeAlarms(object, plan.alarms);
  return object.dump();
}
