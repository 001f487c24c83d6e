//===- LoopRecorder.h - Records of training loops of others -----*- C++ -*-===//

#ifndef BINADE_RUNTIME_LOOPRECORDER_H
#define BINADE_RUNTIME_LOOPRECORDER_H

#include "binade/Runtime/Training.h"
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace binade {

/// A statistic of a value in a step.
struct RecordedStatistic {
  std::string name; ///< `statistic`; of a complete step: kind/layer/statistic.
  double number;    ///< NaN for a histogram, or without a value.
  /// For a histogram: how many elements have each biased f32 exponent.
  std::vector<std::int64_t> exponents;
};

/// Records the steps of a training loop whose tensors belong to a framework:
/// computes statistics of its tensors, evaluates alarm rules, and writes the
/// files that `train` writes: metrics.jsonl, stats.jsonl, alarms.jsonl and
/// events.out.tfevents.*.
class LoopRecorder {
public:
  /// Opens the files in `directory`, which is created if it does not exist;
  /// none are written if it is empty. Removes what the files have of the steps
  /// after `step`, and lets the rules observe the steps up to it. `alarms` have
  /// to be valid, as those that `chooseAlarms` returns. Fails if another
  /// process uses the directory (exit code 8), or if it has steps and `step` is
  /// 0 (2).
  static Result<LoopRecorder> open(const std::string &directory,
                                   std::int64_t step,
                                   const AlarmSettings &alarms);
  LoopRecorder(LoopRecorder &&) noexcept;
  LoopRecorder &operator=(LoopRecorder &&) noexcept;
  ~LoopRecorder();

  /// Registers a program that computes statistics of a tensor, and has to
  /// outlive this object. Returns its number.
  std::size_t add(Program &program);

  /// A port of a program, by its index, and memory to bind it to.
  using Memory = std::pair<std::size_t, void *>;
  /// Computes the statistics of a tensor with program `number`.
  Result<std::vector<RecordedStatistic>>
  compute(std::size_t number, std::span<const Memory> memory);
  /// Records statistics of a value in the current step. They replace those of
  /// the same kind, layer and name.
  void record(std::string_view kind, std::string_view layer,
              std::span<const RecordedStatistic> statistics);

  /// Returns the norm of all values of the same kind in the current step of
  /// which the norm is recorded, and their number.
  std::pair<double, std::size_t> computeNorm(std::string_view kind) const;

  /// Ends the current step: writes it, and returns its alarms.
  Result<std::vector<Alarm>> finish(const StepMetrics &metrics);
  /// Discards the statistics of the current step.
  void discard();
  /// Writes all events, syncs the files to disk, and closes them. Later steps
  /// are not written.
  Result<void> close();

  /// Returns the statistics of the newest complete step that had any.
  const std::vector<RecordedStatistic> &getStatistics() const;

private:
  struct Implementation;
  explicit LoopRecorder(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation;
};

} // namespace binade

#endif // BINADE_RUNTIME_LOOPRECORDER_H
