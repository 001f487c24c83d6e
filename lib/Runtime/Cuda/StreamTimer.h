//===- StreamTimer.h - When a stream came to records ------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_STREAMTIMER_H
#define BINADE_RUNTIME_CUDA_STREAMTIMER_H

#include "../Monitoring/Profiler.h"
#include "Device.h"

namespace binade::cuda {

/// Marks a stream between the records that are put on it. Events are kept for
/// the next run.
class StreamTimer {
public:
  explicit StreamTimer(Device &device) : device(&device) {}

  /// Before the first record: forgets the run before.
  Result<void> begin();
  /// The mark behind all that was put on the stream.
  std::size_t getLast() const { return used - 1; }
  /// All since the mark `begin` was `record`.
  Result<void> end(const plan::Record &record, std::size_t begin);
  /// After the stream was waited for; its first mark was at `start`.
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
