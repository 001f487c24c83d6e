//===- Executor.h - The records of a plan, ready to run ---------*- C++ -*-===//

#ifndef BINADE_RUNTIME_EXECUTOR_H
#define BINADE_RUNTIME_EXECUTOR_H

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

  void run();

  /// Scratch memory beyond what the plan reserved.
  std::uint64_t getExtraBytes() const { return extra.size(); }
  void setProfiling(bool on) { profiling = on; }
  std::vector<RecordProfile> getProfile() const;

private:
  /// A record, or the end of a loop.
  struct Step {
    std::unique_ptr<Operation> operation; ///< Null for a loop.
    std::int64_t count = 0;               ///< Of a loop.
    std::size_t end = 0;                  ///< Step behind the loop's body.
    std::string label;
    std::string_view kind;
    std::int64_t calls = 0;
    double seconds = 0;
  };

  Result<void> append(const std::vector<plan::Record> &records,
                      const Setup &setup);
  Result<std::unique_ptr<Operation>> prepare(const plan::Record &record,
                                             const Setup &setup);
  Result<void> provideScratch(const Setup &setup);
  void run(std::size_t begin, std::size_t end);

  Memory memory;
  std::vector<Step> steps;
  std::vector<Operation *> withoutScratch;
  Arena extra;
  ExecutionContext context;
  bool profiling = false;
  bool emulatesF16 = false; ///< And has said so.
};

} // namespace binade

#endif // BINADE_RUNTIME_EXECUTOR_H
