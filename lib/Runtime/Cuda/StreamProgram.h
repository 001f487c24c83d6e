//===- StreamProgram.h - Plan records on a stream ---------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_STREAMPROGRAM_H
#define BINADE_RUNTIME_CUDA_STREAMPROGRAM_H

#include "StreamOperation.h"
#include "StreamTimer.h"

namespace binade::cuda {

/// A record list of a plan, prepared for execution on a stream.
class StreamProgram {
public:
  static Result<StreamProgram> create(const std::vector<plan::Record> &records,
                                      const StreamSetup &setup);

  /// Enqueues all records, and marks of `timer` unless it is null.
  Result<void> run(StreamTimer *timer);
  /// Enqueues the records from index `begin` to `end`.
  Result<void> run(std::size_t begin, std::size_t end);
  /// Returns the indices of the exchanges, between which graphs can be.
  std::vector<std::size_t> listExchanges() const;
  std::size_t size() const { return steps.size(); }
  /// Enqueues one record after the other, and calls `after` with the index of
  /// each; stops when it returns false.
  Result<void> run(const std::function<bool(std::size_t)> &after);
  /// Enqueues one record, given by the path and iteration of a RecordPlace.
  Result<void> run(std::span<const std::size_t> path,
                   std::span<const std::int64_t> iteration);
  Profiler::Implementations getImplementations() const;
  /// Tunes all operations; see StreamOperation. Results of records are invalid
  /// afterwards.
  Result<void> tune();
  /// Returns the algorithms of the library's matmuls by record.
  std::map<const plan::Record *, std::string> getAlgorithms() const;

private:
  struct Step {
    const plan::Record *record = nullptr;
    std::unique_ptr<StreamOperation> operation; ///< Null for a loop.
    std::int64_t count = 0;                     ///< Iterations of a loop.
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
