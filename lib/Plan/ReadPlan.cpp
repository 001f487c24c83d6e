//===- ReadPlan.cpp - Reader of plans from JSON ---------------------------===//

#include "AlarmFields.h"
#include "RecordJson.h"
#include "binade/Plan/PlanJson.h"

using namespace binade;
using namespace binade::plan;
using nlohmann::json;

static DType readDType(Fields &fields) {
  return fields.named<DType>("dtype", parseDType, "type");
}

static Buffer readBuffer(Fields fields) {
  Buffer buffer;
  buffer.name = fields.text("name");
  buffer.offset = fields.size("offset");
  buffer.bytes = fields.size("bytes");
  buffer.dtype = readDType(fields);
  buffer.shape = fields.integers("shape");
  buffer.category =
      fields.named<Category>("category", parseCategory, "category");
  buffer.slot = fields.size("slot", 0);
  if (const json *value = fields.find("shard")) {
    Fields shard = fields.inner(*value, "shard");
    buffer.shard = {shard.integers("shape"), shard.integer("first")};
    shard.finish();
  }
  fields.finish();
  return buffer;
}

static Init readInit(Fields fields) {
  std::string kind = fields.text("kind");
  Init init;
  if (kind == "external") {
    ExternalInit external;
    external.file = fields.text("file");
    external.offset = fields.size("offset");
    external.bytes = fields.size("bytes");
    external.sha256 = fields.optionalText("sha256");
    init = external;
  } else if (kind == "bundle") {
    init = BundleInit{fields.text("tensor")};
  } else if (kind == "random") {
    std::string distribution = fields.text("distribution");
    if (distribution != "normal" && distribution != "uniform")
      throw fields.error("distribution " + quote(distribution) +
                         " is not known");
    init = RandomInit{distribution == "normal" ? RandomInit::Normal
                                               : RandomInit::Uniform,
                      fields.number("origin"), fields.number("scale")};
  } else if (kind == "fill") {
    init = FillInit{fields.number("value")};
  } else if (kind == "beside") {
    init = CompanionInit{
        fields.text("parameter"),
        fields.named<plan::Master>("master", parseMaster, "remedy")};
  } else {
    throw fields.error("initial value " + quote(kind) + " is not known");
  }
  fields.finish();
  return init;
}

static Port readPort(Fields fields) {
  Port port;
  port.role = fields.named<Role>("role", parseRole, "role");
  port.name = fields.text("name");
  port.buffer = fields.index("buffer");
  if (const json *init = fields.find("init"))
    port.init = readInit(fields.inner(*init, "init"));
  if (const json *value = fields.find("check")) {
    Fields range = fields.inner(*value, "check");
    IndexCheck check{range.integer("low"), range.integer("high"), {}};
    if (const json *ignored = range.find("ignored"))
      check.ignored = range.toInteger("ignored", *ignored);
    range.finish();
    port.check = check;
  }
  if (const json *value = fields.find("range")) {
    Fields range = fields.inner(*value, "range");
    port.range =
        NumberRange{range.optionalNumber("min"), range.optionalNumber("max"),
                    range.optionalNumber("below")};
    range.finish();
  }
  port.frozen = fields.flag("frozen");
  port.every = fields.integer("every", 0);
  fields.finish();
  return port;
}

static QuantizedStates readQuantized(Fields fields) {
  QuantizedStates quantized;
  quantized.format = fields.text("format");
  fields.each("states", [&](const json &value, std::size_t i) {
    Fields inner = fields.inner(value, "state " + std::to_string(i));
    QuantizedStates::State state;
    inner.each("parts", [&](const json &name, std::size_t) {
      state.parts.push_back(inner.toText("parts", name));
    });
    if (state.parts.empty())
      throw inner.error("parts", "a list of names");
    state.shape = inner.integers("shape");
    inner.finish();
    quantized.states.push_back(std::move(state));
  });
  fields.finish();
  return quantized;
}

static DeviceKernel readDeviceKernel(Fields fields) {
  DeviceKernel kernel;
  kernel.name = fields.text("name");
  kernel.module = fields.index("module");
  fields.each("entries", [&](const json &value, std::size_t i) {
    Fields entry = fields.inner(value, "entry " + std::to_string(i));
    kernel.entries.push_back({entry.text("symbol"), entry.integers("grid"),
                              entry.integers("block")});
    entry.finish();
  });
  kernel.alignments = fields.integers("alignments");
  fields.finish();
  return kernel;
}

/// Reads an optional object of integers.
static std::map<std::string, std::int64_t> readCounts(Fields &fields,
                                                      std::string_view key) {
  std::map<std::string, std::int64_t> counts;
  if (const json *object = fields.find(key)) {
    Fields inner = fields.inner(*object, std::string(key));
    for (const auto &[name, count] : object->items())
      counts[name] = inner.toInteger(name, count);
  }
  return counts;
}

static Plan readPlan(Fields fields) {
  std::int64_t version = fields.integer("version");
  if (version != kPlanVersion)
    throw fields
        .error("plan of version " + std::to_string(version) +
               ", this runtime reads version " + std::to_string(kPlanVersion))
        .withNote(version > kPlanVersion ? "use a newer runtime"
                                         : "compile the model again");
  Plan plan;
  plan.model = fields.optionalText("model");
  if (const json *policy = fields.find("policy")) {
    Fields inner = fields.inner(*policy, "policy");
    plan.policy = inner.text("name");
    plan.policyHash = inner.text("hash");
    inner.each("texts", [&](const json &value, std::size_t i) {
      Fields text = inner.inner(value, "policy text " + std::to_string(i));
      plan.policyTexts.push_back({text.text("name"), text.text("hash"),
                                  text.text("text"),
                                  text.optionalText("costs")});
      text.finish();
    });
    inner.finish();
  }
  plan.computation = fields.optionalText("computation");
  plan.dims = readCounts(fields, "dims");
  plan.ops = readCounts(fields, "ops");
  plan.casts = readCounts(fields, "casts");
  plan.threads = fields.index("threads", 0);
  plan.skipsNonFinite = fields.flag("skips_non_finite");
  plan.chip = fields.optionalText("chip");
  fields.each("device_kernels", [&](const json &value, std::size_t i) {
    plan.deviceKernels.push_back(readDeviceKernel(
        fields.inner(value, "device kernel " + std::to_string(i))));
  });
  plan.arenaBytes = fields.size("arena_bytes");
  const json &ledger = fields.get("ledger");
  Fields categories = fields.inner(ledger, "ledger");
  for (const auto &[name, value] : ledger.items()) {
    std::optional<Category> category = parseCategory(name);
    if (!category)
      throw categories.error("category " + quote(name) + " is not known");
    plan.ledger[*category] = categories.size(name);
  }
  fields.each("buffers", [&](const json &value, std::size_t i) {
    plan.buffers.push_back(
        readBuffer(fields.inner(value, "buffer " + std::to_string(i))));
  });
  fields.each("ports", [&](const json &value, std::size_t i) {
    plan.ports.push_back(
        readPort(fields.inner(value, "port " + std::to_string(i))));
  });
  fields.each("quantized_states", [&](const json &value, std::size_t i) {
    plan.quantizedStates.push_back(readQuantized(
        fields.inner(value, "quantized states " + std::to_string(i))));
  });
  plan.records = readRecords(fields, "records");
  plan.batches = fields.integer("batches", 1);
  plan.accumulation = readRecords(fields, "accumulation");
  plan.evaluation = readRecords(fields, "evaluation");
  plan.observation = readRecords(fields, "observation");
  plan.alarms = readAlarms(fields);
  if (const json *value = fields.find("shard")) {
    Fields shard = fields.inner(*value, "shard");
    plan.shard = {shard.index("rank"), shard.index("size")};
    shard.finish();
  }
  fields.finish();
  return plan;
}

Result<Plan> binade::readPlan(std::string_view text, std::string_view where) {
  // Enough, because ten thousand records need a few megabytes.
  JsonLimits limits;
  limits.bytes = 256 << 20;
  Result<json> parsed = parseJson(text, where, limits);
  if (!parsed)
    return parsed.takeError();
  try {
    Plan plan = ::readPlan(Fields(*parsed, where, ""));
    if (Result<void> valid = validate(plan, where); !valid)
      return valid.takeError();
    return plan;
  } catch (Error &error) {
    return std::move(error);
  }
}

Result<std::vector<QuantizedStates>>
binade::readQuantizedStates(std::string_view text, std::string_view where) {
  Result<json> parsed = parseJson(text, where);
  if (!parsed)
    return parsed.takeError();
  if (!parsed->is_array())
    return Error{std::string(where), "quantized states: expected a list"};
  try {
    std::vector<QuantizedStates> states;
    for (std::size_t i = 0; i < parsed->size(); ++i)
      states.push_back(readQuantized(Fields(
          parsed->at(i), where, "quantized states " + std::to_string(i))));
    return states;
  } catch (Error &error) {
    return std::move(error);
  }
}
