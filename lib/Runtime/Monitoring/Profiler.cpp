//===- Profiler.cpp - Recorder of execution times -------------------------===//

#include "Profiler.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

/// Limits the trace file to about 200 MB.
static constexpr std::size_t kMaxCalls = 1 << 20;

void Profiler::add(std::size_t lane, const Call &call) {
  Lane &own = lanes[lane];
  Total &total = own.totals[call.record];
  ++total.calls;
  total.seconds += call.end - call.begin;
  if (keepsCalls)
    own.calls.push_back(call);
}

void Profiler::add(const Run &run) {
  steps += run.list == RecordList::Step || run.list == RecordList::Observation;
  seconds += run.end - run.begin;
  if (!keepsCalls)
    return;
  runs.push_back(run);
  std::size_t calls = 0;
  for (const Lane &lane : lanes)
    calls += lane.calls.size();
  keepsCalls = calls < kMaxCalls;
}

namespace {
/// Creates a row for each record of a plan, including those in loops, but not
/// for the loops themselves.
class Rows {
public:
  Rows(const Plan &plan, const Profiler::Implementations &implementations,
       unsigned slots)
      : plan(plan), implementations(implementations), slots(slots) {}

  void add(RecordList list, const std::vector<Record> &records) {
    for (const Record &record : records)
      if (auto *loop = std::get_if<Loop>(&record.body))
        addLoop(list, *loop);
      else
        addRow(list, record);
  }

  std::vector<RecordProfile> rows;

private:
  void addLoop(RecordList list, const Loop &loop) {
    unsigned outer = lanes;
    if (loop.slots > 0)
      lanes = static_cast<unsigned>(std::min<std::int64_t>(loop.slots, slots));
    counts.push_back(loop.count);
    add(list, loop.body);
    counts.pop_back();
    lanes = outer;
  }

  void addRow(RecordList list, const Record &record) {
    RecordProfile &row = rows.emplace_back();
    row.record = &record;
    row.program = name(list);
    row.label = record.label;
    row.kind = getKind(record);
    if (auto name = implementations.find(&record);
        name != implementations.end())
      row.implementation = name->second;
    row.cost = costOf(record, plan.buffers, counts);
    row.lanes = lanes;
  }

  const Plan &plan;
  const Profiler::Implementations &implementations;
  unsigned slots, lanes = 1;
  std::vector<std::int64_t> counts;
};
} // namespace

Profile Profiler::summarize(const Plan &plan,
                            const Implementations &implementations) const {
  Rows rows(plan, implementations, static_cast<unsigned>(lanes.size()) - 1);
  for (RecordList list : kRecordLists)
    rows.add(list, getRecords(plan, list));
  Profile profile;
  profile.steps = steps;
  profile.seconds = seconds;
  profile.records = std::move(rows.rows);
  for (RecordProfile &row : profile.records)
    for (const Lane &lane : lanes)
      if (auto total = lane.totals.find(row.record);
          total != lane.totals.end()) {
        row.calls += total->second.calls;
        row.seconds += total->second.seconds / row.lanes;
      }
  return profile;
}
