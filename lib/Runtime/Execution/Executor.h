//===- Executor.h - The records of a plan, ready to run ---------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_EXECUTOR_H
#define BINADE_LIB_RUNTIME_EXECUTION_EXECUTOR_H

#include "../Monitoring/Profiler.h"
#include "Arena.h"
#include "KernelObject.h"
#include "Operation.h"
#include "binade/Runtime/Program.h"

namespace binade {

class Executor {
public:
  struct Setup {
    const Plan *plan = nullptr;
    std::byte *arena = nullptr;
    const KernelObject *kernels = nullptr;
    unsigned threads = 1;
    Contraction contraction = Contraction::Auto;
    std::string where;
    Notify notify;
  };
  static Result<Executor> create(const Setup &setup);

  void run(RecordList list);
  /// Calls `after` with the number of each record of the plan that was
  /// executed, until it says false: then the rest is left out.
  void run(const std::function<bool(std::size_t)> &after);
  void run(const RecordPlace &place);

  /// Scratch memory beyond what the plan reserved.
  std::uint64_t getExtraBytes() const { return extra.size(); }
  /// Gets all executions from now on; null for none.
  void setProfiler(Profiler *to) { profiler = to; }
  Profiler::Implementations getImplementations() const;

private:
  struct Step {
    std::unique_ptr<Operation> operation; ///< Null for a loop.
    std::int64_t count = 0;               ///< Of a loop.
    /// Of a loop; of a parallel loop one for each slot.
    std::vector<std::vector<Step>> bodies;
    bool isParallel = false;
    const plan::Record *record = nullptr;
  };
  using Steps = std::vector<Step>;
  /// An operation for whose scratch memory the plan reserved too little.
  struct Need {
    Operation *operation;
    std::uint64_t slot;
  };

  /// `memory` says in which slot, `threads` how many execute the records.
  Result<Steps> prepare(const std::vector<plan::Record> &records,
                        const Memory &memory, unsigned threads,
                        const Setup &setup);
  Result<Step> prepare(const plan::Loop &loop, const Memory &memory,
                       unsigned threads, const Setup &setup);
  Result<std::unique_ptr<Operation>> prepare(const plan::Record &record,
                                             const Memory &memory,
                                             unsigned threads,
                                             const Setup &setup);
  Result<void> provideScratch(const Setup &setup);
  void run(Step &step, ExecutionContext &context) const;
  void runLoop(Step &loop, ExecutionContext &context) const;
  void run(Steps &steps, ExecutionContext &context) const;
  void runParallel(Step &loop, const ExecutionContext &context) const;
  static void addTo(Profiler::Implementations &implementations,
                    const Steps &steps);

  std::array<Steps, kNumRecordLists> lists;
  std::vector<Need> needs;
  Arena extra;
  ExecutionContext context;
  Profiler *profiler = nullptr;
  bool emulatesF16 = false; ///< And has said so.
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_EXECUTOR_H
