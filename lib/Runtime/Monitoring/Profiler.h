//===- Profiler.h - When records were executed ------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_PROFILER_H
#define BINADE_LIB_RUNTIME_MONITORING_PROFILER_H

#include "binade/Runtime/Profile.h"
#include "binade/Runtime/RecordList.h"
#include <chrono>
#include <unordered_map>

namespace binade {

/// Collects executions. Times are seconds since it was made. Slots of a
/// parallel loop have a lane each, which one thread at a time adds to; lane 0
/// is everything else's.
class Profiler {
public:
  using Implementations = std::unordered_map<const plan::Record *, std::string>;
  /// Of records of the plan, or of what else a run consists of.
  struct Call {
    const plan::Record *record;
    double begin, end;
  };
  /// One execution of a list of records.
  struct Run {
    RecordList list;
    double begin, end;
  };

  /// `slots` is the most that a parallel loop has.
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

  /// `implementations` are the operations' own names of what they are.
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
  std::vector<Run> runs; ///< Whose calls are kept.
  std::int64_t steps = 0;
  double seconds = 0;
  bool keepsCalls = true; ///< Until there are too many.
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_PROFILER_H
