//===- RecordJson.cpp - Plan records as JSON ------------------------------===//
// The functions that write and read a kind of records are next to each other.
//===----------------------------------------------------------------------===//

#include "RecordJson.h"
#include "WriteFields.h"
#include <cmath>

using namespace binade;
using namespace binade::plan;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

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

static View readView(Fields fields) {
  View view;
  view.buffer = fields.index("buffer");
  view.offset = fields.integer("offset", 0);
  view.strides = fields.integers("strides");
  view.steps = fields.integers("steps");
  fields.finish();
  return view;
}

static View readView(Fields &fields, std::string_view key) {
  return readView(fields.inner(fields.get(key), key));
}

static std::optional<View> readOptionalView(Fields &fields,
                                            std::string_view key) {
  if (const json *value = fields.find(key))
    return readView(fields.inner(*value, key));
  return std::nullopt;
}

static std::vector<View> readViews(Fields &fields, std::string_view key) {
  std::vector<View> views;
  fields.each(key, [&](const json &value, std::size_t i) {
    views.push_back(readView(
        fields.inner(value, std::string(key) + " " + std::to_string(i))));
  });
  return views;
}

/// Reads an optional object of strings.
static std::map<std::string, std::string> readTexts(Fields &fields,
                                                    std::string_view key) {
  std::map<std::string, std::string> texts;
  if (const json *object = fields.find(key)) {
    Fields inner = fields.inner(*object, std::string(key));
    for (const auto &[name, text] : object->items())
      texts[name] = inner.text(name);
    inner.finish();
  }
  return texts;
}

static json write(const Fallback &fallback) {
  json object = {{"decided", fallback.decided},
                 {"computed", fallback.computed},
                 {"reason", fallback.reason}};
  writeText(object, "nearest", fallback.nearest);
  return object;
}

static std::optional<Fallback> readFallback(Fields &fields) {
  const json *value = fields.find("fallback");
  if (!value)
    return std::nullopt;
  Fields inner = fields.inner(*value, "fallback");
  Fallback fallback{inner.text("decided"), inner.text("computed"),
                    inner.text("reason"), inner.optionalText("nearest")};
  inner.finish();
  return fallback;
}

//===----------------------------------------------------------------------===//
// Kinds
//===----------------------------------------------------------------------===//

static json write(const Launch &launch) {
  json segments = json::array();
  for (const Segment &segment : launch.segments) {
    json &object = segments.emplace_back();
    object = {{"operands", write(segment.operands)},
              {"extent", segment.extent}};
    if (!segment.kernel.empty())
      object["kernel"] = segment.kernel;
    if (segment.first != 0)
      object["first"] = segment.first;
  }
  json object = {{"kernel", launch.kernel},
                 {"grain", launch.grain},
                 {"segments", std::move(segments)}};
  writeFlag(object, "finish", launch.finish);
  if (!launch.finishOperands.empty())
    object["finish_operands"] = write(launch.finishOperands);
  writeFlag(object, "updates_elements", launch.updatesElements);
  return object;
}

static void read(Fields &fields, Launch &launch) {
  launch.kernel = fields.text("kernel");
  launch.grain = fields.integer("grain");
  launch.finish = fields.flag("finish");
  launch.finishOperands = readViews(fields, "finish_operands");
  launch.updatesElements = fields.flag("updates_elements");
  fields.each("segments", [&](const json &value, std::size_t i) {
    Fields inner = fields.inner(value, "segment " + std::to_string(i));
    launch.segments.push_back(
        {inner.optionalText("kernel"), readViews(inner, "operands"),
         inner.integer("extent"), inner.integer("first", 0)});
    inner.finish();
  });
}

static json write(const Matmul &matmul) {
  json object = {{"lhs", write(matmul.lhs)},
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
  if (const std::optional<Accumulation> &found = matmul.accumulation)
    object["accumulation"] = {found->bits, found->step, found->promote};
  writeOptional(object, "bias", matmul.bias);
  writeFlag(object, "accumulate", matmul.accumulate);
  writeFlag(object, "tf32", matmul.tf32);
  if (!matmul.algorithms.empty())
    object["algorithms"] = matmul.algorithms;
  writeText(object, "kernel", matmul.deviceKernel);
  writeOptional(object, "scratch", matmul.scratch);
  writeOptional(object, "library_scratch", matmul.libraryScratch);
  return object;
}

static std::optional<ScaleBlock> readScaleBlock(Fields &fields) {
  std::vector<std::int64_t> sizes = fields.integers("block");
  if (sizes.empty())
    return std::nullopt;
  if (sizes.size() != 3)
    throw fields.error("block", "a list of 3 integers");
  return ScaleBlock{sizes[0], sizes[1], sizes[2]};
}

static std::optional<Accumulation> readAccumulation(Fields &fields) {
  std::vector<std::int64_t> found = fields.integers("accumulation");
  if (found.empty())
    return std::nullopt;
  if (found.size() != 3)
    throw fields.error("accumulation", "a list of 3 integers");
  return Accumulation{found[0], found[1], found[2]};
}

static void read(Fields &fields, Matmul &matmul) {
  matmul.lhs = readView(fields, "lhs");
  matmul.rhs = readView(fields, "rhs");
  matmul.out = readView(fields, "out");
  matmul.lhsScale = readOptionalView(fields, "lhs_scale");
  matmul.rhsScale = readOptionalView(fields, "rhs_scale");
  matmul.block = readScaleBlock(fields);
  matmul.accumulation = readAccumulation(fields);
  matmul.bias = readOptionalView(fields, "bias");
  matmul.batch = fields.integers("batch");
  matmul.m = fields.integer("m");
  matmul.n = fields.integer("n");
  matmul.k = fields.integer("k");
  matmul.accumulate = fields.flag("accumulate");
  matmul.tf32 = fields.flag("tf32");
  matmul.algorithms = readTexts(fields, "algorithms");
  matmul.deviceKernel = fields.optionalText("kernel");
  matmul.scratch = readOptionalView(fields, "scratch");
  matmul.libraryScratch = readOptionalView(fields, "library_scratch");
}

static json write(const Convolution &c) {
  static constexpr const char *directions[] = {"forward", "input_grad",
                                               "weight_grad"};
  json object = {{"direction", directions[c.direction]},
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

static std::optional<Convolution::Direction>
parseDirection(std::string_view name) {
  if (name == "forward")
    return Convolution::Forward;
  if (name == "input_grad")
    return Convolution::InputGrad;
  if (name == "weight_grad")
    return Convolution::WeightGrad;
  return std::nullopt;
}

static void read(Fields &fields, Convolution &c) {
  c.direction = fields.named<Convolution::Direction>(
      "direction", parseDirection, "direction");
  c.x = readView(fields, "x");
  c.weight = readView(fields, "weight");
  c.y = readView(fields, "y");
  c.bias = readOptionalView(fields, "bias");
  c.batch = fields.integer("batch");
  c.inChannels = fields.integer("in_channels");
  c.outChannels = fields.integer("out_channels");
  c.groups = fields.integer("groups");
  c.input = fields.integers("input");
  c.kernel = fields.integers("kernel");
  c.output = fields.integers("output");
  c.strides = fields.integers("strides");
  c.dilations = fields.integers("dilations");
  c.paddingLow = fields.integers("padding_low");
  c.paddingHigh = fields.integers("padding_high");
  c.channelsLast = fields.flag("channels_last");
  c.scratch = readOptionalView(fields, "scratch");
  c.libraryScratch = readOptionalView(fields, "library_scratch");
  c.deviceKernel = fields.optionalText("device_kernel");
}

static void write(json &object, const AttentionExtras &extras) {
  if (!extras.biases.empty())
    object["biases"] = write(extras.biases);
  writeOptional(object, "mask", extras.mask);
  if (const auto &dropout = extras.dropout)
    object["dropout"] = {{"state", write(dropout->state)},
                         {"ratio", dropout->ratio},
                         {"stream", dropout->stream}};
  if (extras.softcap != 0)
    object["softcap"] = extras.softcap;
  if (std::isfinite(extras.fill)) // Otherwise -infinity.
    object["fill"] = extras.fill;
  writeFlag(object, "zero_hidden", extras.zeroHidden);
  writeFlag(object, "zero_nan", extras.zeroNan);
}

static void read(Fields &fields, AttentionExtras &extras) {
  extras.biases = readViews(fields, "biases");
  extras.mask = readOptionalView(fields, "mask");
  if (const json *object = fields.find("dropout")) {
    Fields inner = fields.inner(*object, "dropout");
    extras.dropout = {readView(inner, "state"), inner.number("ratio"),
                      inner.integer("stream")};
    inner.finish();
  }
  extras.softcap = fields.optionalNumber("softcap").value_or(extras.softcap);
  extras.fill = fields.optionalNumber("fill").value_or(extras.fill);
  extras.zeroHidden = fields.flag("zero_hidden");
  extras.zeroNan = fields.flag("zero_nan");
}

static json write(const Attention::Gradients &gradients) {
  json object = {{"dy", write(gradients.dy)},
                 {"dquery", write(gradients.dquery)},
                 {"dkey", write(gradients.dkey)},
                 {"dvalue", write(gradients.dvalue)}};
  for (const Attention::BiasGradient &dbias : gradients.dbiases)
    object["dbiases"].push_back(
        {{"bias", dbias.bias}, {"view", write(dbias.view)}});
  return object;
}

static void read(Fields &fields, Attention::Gradients &gradients) {
  gradients.dy = readView(fields, "dy");
  gradients.dquery = readView(fields, "dquery");
  gradients.dkey = readView(fields, "dkey");
  gradients.dvalue = readView(fields, "dvalue");
  fields.each("dbiases", [&](const json &value, std::size_t i) {
    Fields inner = fields.inner(value, "dbiases " + std::to_string(i));
    gradients.dbiases.push_back(
        {inner.integer("bias"), readView(inner, "view")});
    inner.finish();
  });
}

static json write(const Attention &a) {
  json object = {{"query", write(a.query)}, {"key", write(a.key)},
                 {"value", write(a.value)}, {"y", write(a.y)},
                 {"lse", write(a.lse)},     {"batch", a.batch},
                 {"queries", a.queries},    {"keys", a.keys},
                 {"depth", a.depth},        {"width", a.width},
                 {"scale", a.scale}};
  if (a.gradients)
    object["gradients"] = write(*a.gradients);
  writeFlag(object, "causal", a.causal);
  writeFlag(object, "grouped", a.grouped);
  write(object, a.extras);
  writeOptional(object, "scratch", a.scratch);
  writeOptional(object, "library_scratch", a.libraryScratch);
  writeText(object, "device_kernel", a.deviceKernel);
  return object;
}

static void read(Fields &fields, Attention &a) {
  a.query = readView(fields, "query");
  a.key = readView(fields, "key");
  a.value = readView(fields, "value");
  a.y = readView(fields, "y");
  a.lse = readView(fields, "lse");
  if (const json *object = fields.find("gradients")) {
    Fields inner = fields.inner(*object, "gradients");
    read(inner, a.gradients.emplace());
    inner.finish();
  }
  a.batch = fields.integers("batch");
  a.queries = fields.integer("queries");
  a.keys = fields.integer("keys");
  a.depth = fields.integer("depth");
  a.width = fields.integer("width");
  a.scale = fields.number("scale");
  a.causal = fields.flag("causal");
  a.grouped = fields.flag("grouped");
  read(fields, a.extras);
  a.scratch = readOptionalView(fields, "scratch");
  a.libraryScratch = readOptionalView(fields, "library_scratch");
  a.deviceKernel = fields.optionalText("device_kernel");
}

static json write(const Copy &copy) {
  json object = {{"from", write(copy.from)},
                 {"to", write(copy.to)},
                 {"sizes", copy.sizes}};
  writeText(object, "kernel", copy.deviceKernel);
  return object;
}

static void read(Fields &fields, Copy &copy) {
  copy.from = readView(fields, "from");
  copy.to = readView(fields, "to");
  copy.sizes = fields.integers("sizes");
  copy.deviceKernel = fields.optionalText("kernel");
}

static json write(const Exchange &exchange) {
  json object = {{"action", name(exchange.action)},
                 {"bucket", exchange.bucket}};
  if (exchange.action != Exchange::Join) {
    object["operation"] = name(exchange.operation);
    object["format"] = name(exchange.format);
    object["tensors"] = write(exchange.tensors);
    object["elements"] = exchange.elements;
    if (!exchange.rankOffsets.empty())
      object["rank_offsets"] = exchange.rankOffsets;
  }
  writeOptional(object, "sums", exchange.sums);
  writeOptional(object, "counter", exchange.counter);
  return object;
}

static std::optional<Exchange::Action> parseAction(std::string_view text) {
  for (auto action : {Exchange::Start, Exchange::Join, Exchange::Add})
    if (name(action) == text)
      return action;
  return std::nullopt;
}

static std::optional<Exchange::Operation>
parseOperation(std::string_view text) {
  for (auto operation : {Exchange::Sum, Exchange::Max, Exchange::Gather})
    if (name(operation) == text)
      return operation;
  return std::nullopt;
}

static void read(Fields &fields, Exchange &exchange) {
  exchange.action =
      fields.named<Exchange::Action>("action", parseAction, "action");
  exchange.bucket = fields.index("bucket");
  if (exchange.action != Exchange::Join) {
    exchange.operation = fields.named<Exchange::Operation>(
        "operation", parseOperation, "operation");
    exchange.format =
        fields.named<Exchange::Format>("format", parseExchangeFormat, "format");
    exchange.tensors = readViews(fields, "tensors");
    exchange.elements = fields.integers("elements");
    exchange.rankOffsets = fields.integers("rank_offsets");
  }
  exchange.sums = readOptionalView(fields, "sums");
  exchange.counter = readOptionalView(fields, "counter");
}

static json write(const Loop &loop) {
  json object = {{"count", loop.count}, {"body", writeRecords(loop.body)}};
  if (loop.slots != 0)
    object["slots"] = loop.slots;
  return object;
}

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

json plan::writeRecords(const std::vector<Record> &records) {
  json list = json::array();
  for (const Record &record : records) {
    json object =
        std::visit([](const auto &body) { return write(body); }, record.body);
    object["kind"] = getKind(record);
    if (!record.label.empty())
      object["label"] = record.label;
    if (record.fallback)
      object["fallback"] = write(*record.fallback);
    list.push_back(std::move(object));
  }
  return list;
}

static std::vector<Record> readRecords(Fields &fields, std::string_view key,
                                       std::size_t depth);

static void readBody(Fields &fields, Loop &loop, std::size_t depth) {
  if (depth == kMaxLoopDepth)
    throw fields.error("loops nested deeper than " +
                       std::to_string(kMaxLoopDepth));
  loop.count = fields.integer("count");
  loop.slots = fields.integer("slots", 0);
  loop.body = readRecords(fields, "body", depth + 1);
}

template <typename Body>
static void readBody(Fields &fields, Body &body, std::size_t) {
  read(fields, body);
}

/// Reads the body of a record as the one of `Bodies` that `kind` names.
template <typename... Bodies>
static void readBody(Fields &fields, std::variant<Bodies...> &record,
                     std::string_view kind, std::size_t depth) {
  auto readAs = [&]<typename Body>(Body body) {
    if (kind != Body::kKind)
      return false;
    readBody(fields, body, depth);
    record = std::move(body);
    return true;
  };
  if (!(readAs(Bodies()) || ...))
    throw fields.error("record kind " + quote(kind) + " is not known");
}

static std::vector<Record> readRecords(Fields &fields, std::string_view key,
                                       std::size_t depth) {
  std::vector<Record> records;
  fields.each(key, [&](const json &value, std::size_t i) {
    Fields inner = fields.inner(value, "record " + std::to_string(i));
    Record &record = records.emplace_back();
    record.label = inner.optionalText("label");
    record.fallback = readFallback(inner);
    readBody(inner, record.body, inner.text("kind"), depth);
    inner.finish();
  });
  return records;
}

std::vector<Record> plan::readRecords(Fields &fields, std::string_view key) {
  return ::readRecords(fields, key, 0);
}
