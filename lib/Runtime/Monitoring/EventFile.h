//===- EventFile.h - Metrics for TensorBoard --------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_EVENTFILE_H
#define BINADE_LIB_RUNTIME_MONITORING_EVENTFILE_H

#include "StatisticsRecorder.h"
#include "binade/Runtime/Alarms.h"
#include <chrono>

namespace binade {

/// Writes metrics for TensorBoard: the scalars `train/loss`, `train/grad_norm`,
/// `train/loss_scale`, `train/lr`, `train/skipped`, `eval/loss` and other
/// metrics of held-out samples, if known.
/// Each process writes its own file `events.out.tfevents.*`, whose name sorts
/// after those of earlier processes. Complete events are written about once a
/// second.
class EventFile {
public:
  /// Creates a file. Readers discard the events of `step` and later steps in
  /// earlier files.
  static Result<EventFile> create(const std::string &directory,
                                  std::int64_t step);
  EventFile(EventFile &&) = default;
  EventFile &operator=(EventFile &&) = default;
  /// Flushes pending events, so that none are lost after an error.
  ~EventFile() { (void)flush(); }

  /// Writes an event with the metrics, the values of `alarms` under
  /// `train-alarm/rule/where`, and the statistics `observed` under
  /// `values-kind-statistic/layer`.
  Result<void> write(const StepMetrics &metrics,
                     std::span<const Observed> observed = {},
                     std::span<const Alarm> alarms = {});
  /// Writes an event with only the held-out metrics.
  Result<void> writeEvaluation(const StepMetrics &metrics);
  /// Adds an event with one scalar, which is written with later ones.
  void add(std::int64_t step, std::string_view tag, double value);
  Result<void> flush();
  /// Syncs all events to disk.
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
