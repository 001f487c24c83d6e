//===- StreamTimer.cpp - Execution times of records on a stream -----------===//

#include "StreamTimer.h"

using namespace binade;
using namespace binade::cuda;

Result<void> StreamTimer::mark() {
  if (used < events.size())
    return device->record(events[used++]);
  Result<Event> event = device->record();
  if (!event)
    return event.takeError();
  events.push_back(*std::move(event));
  ++used;
  return {};
}

Result<void> StreamTimer::begin() {
  used = 0;
  spans.clear();
  return mark();
}

Result<void> StreamTimer::end(const plan::Record &record, std::size_t begin) {
  if (Result<void> done = mark(); !done)
    return done;
  spans.push_back({&record, begin, getLast()});
  return {};
}

Result<void> StreamTimer::report(Profiler &profiler, double start) {
  std::vector<double> times;
  for (std::size_t i = 0; i < used; ++i) {
    auto time = device->measure(events.front(), events[i]);
    if (!time)
      return time.takeError();
    times.push_back(start + time->count());
  }
  for (const Span &span : spans)
    profiler.add(0, {span.record, times[span.begin], times[span.end]});
  return {};
}
