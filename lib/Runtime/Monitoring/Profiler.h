//===- Profiler.h - Recorder of execution times -----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_PROFILER_H
#define BINADE_LIB_RUNTIME_MONITORING_PROFILER_H

#include "binade/Runtime/Profile.h"
#include "binade/Runtime/RecordList.h"
#include <chrono>
#include <unordered_map>

namespace binade {

/// Collects the execution times of records, in seconds since its construction.
/// Each slot of a parallel loop has its own lane, to which one thread at a time
/// adds; all other executions use lane 0.
class Profiler {
public:
  using Implementations = std::unordered_map<const plan::Record *, std::string>;
  /// One execution of a record of the plan, or of another activity such as a
  /// transfer, which has a record of its own.
  struct Call {
    const plan::Record *record;
    double begin, end;
  };
  /// One execution of a list of records.
  struct Run {
    RecordList list;
    double begin, end;
  };

  /// `slots` is the maximum number of slots of a parallel loop.
  explicit Profiler(unsigned slots) : lanes(slots + 1) {}

  double now() const {
    std::chrono::duration<double> elapsed =
        std::chrono::steady_clock::now() - start;
    return elapsed.count();
  }
  void add(std::size_t lane, const Call &call);
  void add(const Run &run);

  const std::vector<Run> &getRuns() const { return runs; }
  std::size_t getNumLanes() const { return lanes.size(); }
  std::span<const Call> getCalls(std::size_t lane) const {
    return lanes[lane].calls;
  }

  /// Returns the totals of all records. `implementations` names the
  /// implementation of each record.
  Profile summarize(const Plan &plan,
                    const Implementations &implementations) const;

private:
  struct Total {
    std::int64_t calls = 0;
    double seconds = 0;
  };
  struct Lane {
    std::vector<Call> calls;
    std::unordered_map<const plan::Record *, Total> totals;
  };

  std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
  std::vector<Lane> lanes;
  std::vector<Run> runs; ///< Runs whose calls are kept.
  std::int64_t steps = 0;
  double seconds = 0;
  bool keepsCalls = true; ///< False after `kMaxCalls` calls.
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_PROFILER_H
