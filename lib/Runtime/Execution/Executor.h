//===- Executor.h - Execution of plan records on the CPU --------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_EXECUTOR_H
#define BINADE_LIB_RUNTIME_EXECUTION_EXECUTOR_H

#include "../Monitoring/Profiler.h"
#include "Arena.h"
#include "KernelObject.h"
#include "Operation.h"
#include "binade/Runtime/Program.h"

namespace binade {
namespace exchange {
class Group;
}

/// Executes the record lists of a plan on the CPU.
class Executor {
public:
  struct Setup {
    const Plan *plan = nullptr;
    std::byte *arena = nullptr;
    const BoundPorts *bound = nullptr;
    const KernelObject *kernels = nullptr;
    unsigned threads = 1;
    Contraction contraction = Contraction::Auto;
    exchange::Group *exchange = nullptr; ///< Null without exchanges.
    std::string where;
    Notify notify;
  };
  static Result<Executor> create(const Setup &setup);

  void run(RecordList list);
  /// Executes the step and calls `after` with the index of each executed record
  /// of the plan; stops when it returns false.
  void run(const std::function<bool(std::size_t)> &after);
  void run(const RecordPlace &place);

  /// Returns the size of the scratch memory beyond what the plan reserved.
  std::uint64_t getExtraBytes() const { return extra.size(); }
  /// Reports all following executions to `to`, unless it is null.
  void setProfiler(Profiler *to) { profiler = to; }
  Profiler::Implementations getImplementations() const;

private:
  struct Step {
    std::unique_ptr<Operation> operation; ///< Null for a loop.
    std::int64_t count = 0;               ///< Iterations of a loop.
    /// The body of a loop; for a parallel loop one copy for each slot.
    std::vector<std::vector<Step>> bodies;
    bool isParallel = false;
    const plan::Record *record = nullptr;
  };
  using Steps = std::vector<Step>;
  /// An operation that needs more scratch memory than the plan reserved.
  struct Need {
    Operation *operation;
    std::uint64_t slot;
  };

  /// Creates the operations of `records` in the slot of `memory`, for execution
  /// with `threads` threads.
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
  exchange::Group *exchange = nullptr;
  bool emulatesF16 = false; ///< Whether the remark about f16 was given.
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_EXECUTOR_H
