//===- EventFile.h - Metrics for TensorBoard --------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_EVENTFILE_H
#define BINADE_LIB_RUNTIME_MONITORING_EVENTFILE_H

#include "StatisticsRecorder.h"
#include "binade/Runtime/Alarms.h"
#include <chrono>

namespace binade {

/// Scalars `train/loss`, `train/grad_norm`, `train/loss_scale`, `train/lr` and
/// `eval/loss`, where they are known, as TensorBoard reads them: a file
/// `events.out.tfevents.*` per process, each later by its name than the one
/// before. Events reach the file about once a second, whole ones only.
class EventFile {
public:
  /// Begins a file. Readers forget what files before it say of `step` and of
  /// the steps that follow.
  static Result<EventFile> create(const std::string &directory,
                                  std::int64_t step);
  EventFile(EventFile &&) = default;
  EventFile &operator=(EventFile &&) = default;
  /// An end that nothing foresaw loses no event, either.
  ~EventFile() { (void)flush(); }

  /// Also `observed`, numbers and histograms under their tags, and the values
  /// of `alarms` under `alarm/rule/where`.
  Result<void> write(const StepMetrics &metrics,
                     std::span<const Observed> observed = {},
                     std::span<const Alarm> alarms = {});
  Result<void> flush();
  /// Brings all events to disk.
  Result<void> sync();

private:
  using Clock = std::chrono::steady_clock;
  explicit EventFile(AppendFile file) : file(std::move(file)) {}

  AppendFile file;
  std::string pending;
  Clock::time_point flushed = Clock::now();
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_EVENTFILE_H
