//===- StreamTimer.h - Execution times of records on a stream ---*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_STREAMTIMER_H
#define BINADE_RUNTIME_CUDA_STREAMTIMER_H

#include "../Monitoring/Profiler.h"
#include "Device.h"

namespace binade::cuda {

/// Times records with events between them on the stream. Events are reused in
/// the next run.
class StreamTimer {
public:
  explicit StreamTimer(Device &device) : device(&device) {}

  /// Starts a run with a first mark, and discards the previous run.
  Result<void> begin();
  /// Returns the index of the last mark.
  std::size_t getLast() const { return used - 1; }
  /// Adds a mark, and attributes the time since mark `begin` to `record`.
  Result<void> end(const plan::Record &record, std::size_t begin);
  /// Reports the times after the stream has finished; the first mark was at the
  /// profiler's time `start`.
  Result<void> report(Profiler &profiler, double start);

private:
  struct Span {
    const plan::Record *record;
    std::size_t begin, end;
  };
  Result<void> mark();

  Device *device;
  std::vector<Event> events;
  std::size_t used = 0;
  std::vector<Span> spans;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_STREAMTIMER_H
