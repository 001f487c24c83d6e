//===- Training.h - Run a training step over data ---------------*- C++ -*-===//
// The loop that drives a Program: batches in, metrics out, the final state in
// a file.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_TRAINING_H
#define BINADE_RUNTIME_TRAINING_H

#include "binade/Runtime/Alarms.h"
#include "binade/Runtime/Data.h"
#include "binade/Runtime/SampleOrder.h"
#include "binade/Runtime/Schedule.h"

namespace binade {

/// What to do about a step whose gradients or loss are not finite.
enum class OnNonFinite : std::uint8_t {
  /// End with exit code 4, with the state before the step, or after it if its
  /// gradients are finite.
  Stop,
  /// Leave out a step whose gradients are not finite; warn of a loss that is
  /// not.
  Skip,
  Continue, ///< Apply it; the program has to be compiled so.
  Shrink,   ///< The same, where the optimizer answers to it.
};
std::optional<OnNonFinite> parseOnNonFinite(std::string_view text);

/// All batches of `data` in their order, from the first batch of `step` on, in
/// place of those that would have been these steps'.
struct Injection {
  const Data *data;
  std::int64_t step; ///< From 1.
};
/// What a run's records call the injection of this index.
std::string nameInjection(std::size_t index, std::int64_t step);

struct TrainOptions {
  std::int64_t steps = 0;
  /// Of hyper-parameters, each applied before a step.
  std::vector<Schedule> schedules;
  Order order = Order::Shuffle;
  std::uint64_t seed = 0; ///< Of the order of samples.
  /// Directory for run.json, metrics.jsonl, events.out.tfevents.*, stats.jsonl
  /// where the program computes statistics, alarms.jsonl where there are any,
  /// checkpoints, final.safetensors and grads-*.safetensors; made when it is
  /// not there. No other run may have it at the same time, and only one that is
  /// resumed may find checkpoints there.
  std::string out;
  /// For run.json: the files that the run is made of, by what they are to it.
  std::map<std::string, std::string> files;
  /// Go on after the newest whole checkpoint in `out`; from the first step if
  /// there is none. The steps that follow have the bits that they would have
  /// had.
  bool resume = false;
  /// The last that has a batch for a step counts.
  std::vector<Injection> injections;
  /// Held-out samples, of which the loss is measured in evaluation: those of
  /// this data, or the last ones of the training data, which training then
  /// leaves out. See Data::split.
  const Data *evalData = nullptr;
  double evalFraction = 0;
  /// Steps from one evaluation to the next; 0 for none but that after the last.
  std::int64_t evalEvery = 0;
  /// Steps from one checkpoint to the next; 0 for none but that of a run which
  /// ends before its last step.
  std::int64_t saveEvery = 0;
  std::int64_t keep = 2; ///< Checkpoints that are left, the newest.
  /// Ends training after the step in which these have passed; 0 for never.
  double maxSeconds = 0;
  /// Ends training after this step, though `steps` says more; 0 for not.
  std::int64_t stopAfter = 0;
  /// Write the gradients of this many first steps.
  std::int64_t saveGradients = 0;
  /// File for what the last step reads: all its ports, named "role/name", as
  /// they are before it, with the last of its batches; empty for none.
  std::string saveInputs;
  /// File for the ranges of the values of all steps; empty for none.
  std::string recordRanges;
  /// The default is to stop; with a loss scaler, which finds its scale by such
  /// gradients, it is to skip them.
  std::optional<OnNonFinite> onNonFinite;
  /// Skipped steps in a row that end training with exit code 4; 0 for none.
  std::int64_t maxSkipped = 50;
  /// What each step is held against; without rules there are no alarms.
  /// Statistics that they watch count where the program computes them.
  AlarmSettings alarms;
  /// Called before each batch. An exit code other than 0 ends training with
  /// that code, once the state of the last whole step is saved.
  std::function<int()> interrupted;
  /// Told what a user should know of a run that goes on.
  Notify warn;
  Notify notify; ///< Told where the run begins.
};

/// One step, as in metrics.jsonl: of all its batches.
struct StepMetrics {
  std::int64_t step = 0;              ///< From 1.
  double loss = 0;                    ///< Unscaled, before the update.
  std::optional<double> gradNorm;     ///< Unscaled, before clipping.
  std::optional<double> lossScale;    ///< With which the step was computed.
  std::optional<double> learningRate; ///< The same; the setting `lr`.
  bool skipped = false;               ///< Nothing was updated.
  double milliseconds = 0;            ///< Reading the batch and computing.
  std::optional<double> evalLoss; ///< Of the held-out samples, after the step.
  double evalMilliseconds = 0;
};

/// What a program says of the step that it has just done, but for its number,
/// and the batches before its last. `scale` is the loss scale that it had
/// before, where it has one.
StepMetrics readMetrics(const Program &program, std::optional<double> scale);

struct TrainSummary {
  std::int64_t steps = 0, skipped = 0;
  double lastLoss = 0;
  std::optional<double> evalLoss; ///< The last, and after which step.
  std::int64_t evalStep = 0;
  double milliseconds = 0;
  std::uint32_t epochs = 0;    ///< Begun.
  bool isAlarmed = false;      ///< Whether an alarm ended training.
  int exitCode = ExitCode::Ok; ///< What `interrupted` or an alarm said.
};

/// Trains an initialized program; `listener` is told about each step. Errors:
/// what options (2), data or a checkpoint of another run (3), numbers (4), the
/// file system (5) or a process that has the directory (8) cause. When the
/// numbers stop training, final.safetensors holds the last good state.
Result<TrainSummary>
train(Program &program, const Data &data, const TrainOptions &options,
      const std::function<void(const StepMetrics &)> &listener = {});

} // namespace binade

#endif // BINADE_RUNTIME_TRAINING_H
