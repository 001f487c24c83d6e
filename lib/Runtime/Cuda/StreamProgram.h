//===- StreamProgram.h - The records of a plan, on a stream -----*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_STREAMPROGRAM_H
#define BINADE_RUNTIME_CUDA_STREAMPROGRAM_H

#include "StreamOperation.h"
#include "StreamTimer.h"

namespace binade::cuda {

/// One list of records: a step, an accumulation or an evaluation.
class StreamProgram {
public:
  static Result<StreamProgram> create(const std::vector<plan::Record> &records,
                                      const StreamSetup &setup);

  /// Puts all records on the stream, with marks of `timer` unless it is null.
  Result<void> run(StreamTimer *timer);
  /// The same for one record after the other, and calls `after` with the number
  /// of each until it says false.
  Result<void> run(const std::function<bool(std::size_t)> &after);
  /// Puts one there, by the path and the iteration of a RecordPlace.
  Result<void> run(std::span<const std::size_t> path,
                   std::span<const std::int64_t> iteration);
  Profiler::Implementations getImplementations() const;
  /// See StreamOperation; results of records mean nothing afterwards.
  Result<void> tune();
  /// Of products by the library, by their records.
  std::map<const plan::Record *, std::string> getAlgorithms() const;

private:
  struct Step {
    const plan::Record *record = nullptr;
    std::unique_ptr<StreamOperation> operation; ///< Null for a loop.
    std::int64_t count = 0;                     ///< Of a loop.
    std::vector<Step> body;
  };
  using Steps = std::vector<Step>;

  static Result<Steps> prepare(const std::vector<plan::Record> &records,
                               const StreamSetup &setup);
  Result<void> run(Step &step, StreamTimer *timer);
  Result<void> run(Steps &steps, StreamTimer *timer);
  Result<void> runLoop(Step &loop, StreamTimer *timer);
  /// Calls `visit` for each step that has an operation.
  template <typename Visit> static void visit(const Steps &steps, Visit visit);

  Steps steps;
  std::vector<std::int64_t> iteration;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_STREAMPROGRAM_H
