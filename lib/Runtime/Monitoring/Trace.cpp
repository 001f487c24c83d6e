//===- Trace.cpp - A profile for Perfetto and chrome://tracing ------------===//

#include "Trace.h"
#include "nlohmann/json.hpp"
#include <array>
#include <cmath>

using namespace binade;
using Json = nlohmann::ordered_json;

/// Replaces invalid UTF-8, which labels from files may contain.
static std::string dump(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {
class TraceWriter {
public:
  TraceWriter(const Profiler &profiler, const Profile &profile)
      : profiler(profiler), profile(profile) {
    for (const RecordProfile &row : profile.records)
      rows[row.record] = &row;
  }

  std::string write(const Plan &plan, std::string_view device);

private:
  void addNames(const Plan &plan);
  void addRuns();
  void addCall(std::size_t lane, const Profiler::Call &call);
  void add(const Json &event) {
    text += text.empty() ? "\n" : ",\n";
    text += dump(event);
  }
  /// Times are in microseconds.
  static Json makeEvent(std::string name, std::string_view category,
                        std::size_t lane, double begin, double end) {
    auto micro = [](double seconds) { return std::round(seconds * 1e9) / 1e3; };
    return {{"name", std::move(name)},
            {"cat", category},
            {"ph", "X"},
            {"ts", micro(begin)},
            {"dur", micro(end - begin)},
            {"pid", 1},
            {"tid", lane}};
  }

  const Profiler &profiler;
  const Profile &profile;
  std::unordered_map<const plan::Record *, const RecordProfile *> rows;
  std::string text;
};
} // namespace

void TraceWriter::addNames(const Plan &plan) {
  add({{"name", "process_name"},
       {"ph", "M"},
       {"pid", 1},
       {"args", {{"name", plan.model.empty() ? "binade" : plan.model}}}});
  for (std::size_t lane = 0; lane < profiler.getNumLanes(); ++lane)
    if (lane == 0 || !profiler.getCalls(lane).empty())
      add({{"name", "thread_name"},
           {"ph", "M"},
           {"pid", 1},
           {"tid", lane},
           {"args",
            {{"name",
              lane == 0 ? "records" : "slot " + std::to_string(lane - 1)}}}});
}

void TraceWriter::addRuns() {
  std::array<std::int64_t, kRecordLists.size()> numbers = {};
  for (const Profiler::Run &run : profiler.getRuns()) {
    std::int64_t number = ++numbers[static_cast<std::size_t>(run.list)];
    std::string_view list = name(run.list);
    add(makeEvent(std::string(list) + " " + std::to_string(number), list, 0,
                  run.begin, run.end));
  }
}

void TraceWriter::addCall(std::size_t lane, const Profiler::Call &call) {
  auto found = rows.find(call.record);
  if (found == rows.end()) {
    auto *loop = std::get_if<plan::Loop>(&call.record->body);
    Json event = makeEvent(call.record->label, loop ? "loop" : "transfer", lane,
                           call.begin, call.end);
    if (loop)
      event["args"] = {{"iterations", loop->count}};
    add(event);
    return;
  }
  const RecordProfile &row = *found->second;
  Json event = makeEvent(row.label, row.kind, lane, call.begin, call.end);
  Json &args = event["args"];
  double seconds = call.end - call.begin;
  args["bytes"] = row.cost.bytes;
  if (row.cost.flops > 0)
    args["flops"] = row.cost.flops;
  if (!row.implementation.empty())
    args["implementation"] = row.implementation;
  if (seconds > 0)
    args["roofline"] =
        profile.ceilings.rooflineSeconds(row.cost) * row.lanes / seconds;
  add(event);
}

std::string TraceWriter::write(const Plan &plan, std::string_view device) {
  addNames(plan);
  addRuns();
  for (std::size_t lane = 0; lane < profiler.getNumLanes(); ++lane)
    for (const Profiler::Call &call : profiler.getCalls(lane))
      addCall(lane, call);
  Json ceilings = {{"bytes_per_second", profile.ceilings.bytesPerSecond}};
  for (const auto &[dtype, flops] : profile.ceilings.flopsPerSecond)
    ceilings["flops_per_second"][std::string(name(dtype))] = flops;
  if (profile.ceilings.tf32FlopsPerSecond > 0)
    ceilings["flops_per_second"]["TF32"] = profile.ceilings.tf32FlopsPerSecond;
  ceilings["sources"] = profile.ceilings.sources;
  Json about = {{"model", plan.model},
                {"policy", plan.policy},
                {"device", device},
                {"steps", profile.steps},
                {"runs_in_trace", profiler.getRuns().size()},
                {"ceilings", std::move(ceilings)}};
  return "{\"displayTimeUnit\": \"ms\",\n\"otherData\": " + dump(about) +
         ",\n\"traceEvents\": [" + text + "\n]}\n";
}

std::string binade::formatTrace(const Profiler &profiler,
                                const Profile &profile, const Plan &plan,
                                std::string_view device) {
  return TraceWriter(profiler, profile).write(plan, device);
}
