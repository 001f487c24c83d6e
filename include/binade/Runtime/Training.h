//===- Training.h - The training loop ---------------------------*- C++ -*-===//
// The loop feeds batches to a Program, writes metrics and checkpoints, and
// saves the final state.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_TRAINING_H
#define BINADE_RUNTIME_TRAINING_H

#include "binade/Runtime/Alarms.h"
#include "binade/Runtime/Data.h"
#include "binade/Runtime/Evaluation.h"
#include "binade/Runtime/EvaluationHistory.h"
#include "binade/Runtime/SampleOrder.h"
#include "binade/Runtime/Schedule.h"

namespace binade {

/// How to handle a step whose gradients or loss are not finite.
enum class OnNonFinite : std::uint8_t {
  /// End with exit code 4. Save the state before the step, or the state after
  /// it if its gradients are finite.
  Stop,
  /// Skip the update if the gradients are not finite; warn if only the loss is
  /// not.
  Skip,
  /// Apply the update; the program has to be compiled without skipping.
  Continue,
  /// Apply the update with an optimizer that shrinks parameters whose gradient
  /// is not finite, such as Tiger; the program has to be compiled so.
  Shrink,
};
std::optional<OnNonFinite> parseOnNonFinite(std::string_view text);

/// Replaces the batches from the first batch of `step` on by all batches of
/// `data`, in order.
struct Injection {
  const Data *data;
  std::int64_t step; ///< Counted from 1.
};
/// Returns the name of an injection in the manifest of a run.
std::string nameInjection(std::size_t index, std::int64_t step);

/// The options of a run.
struct TrainOptions {
  std::int64_t steps = 0;
  /// The number of epochs from which `countSteps` computes `steps`; 0 if the
  /// user sets `steps`.
  std::int64_t epochs = 0;
  /// Schedules of hyper-parameters, evaluated before each step.
  std::vector<Schedule> schedules;
  Order order = Order::Shuffle;
  std::uint64_t seed = 0; ///< Seed of the sample order.
  /// Directory for run.json, run.yaml, metrics.jsonl, events.out.tfevents.*,
  /// stats.jsonl if the program computes statistics, alarms.jsonl if an alarm
  /// is raised, checkpoints, final.safetensors, best.safetensors with
  /// `keepBest`, and grads-*.safetensors. Created if it does not exist. Only
  /// one process may use it at a time, and it may contain the results of a run
  /// only with `resume` or `overwrite`.
  std::string out;
  /// The input files that run.json lists, by their purpose.
  std::map<std::string, std::string> files;
  /// The text of run.yaml, a file with the options of the command; empty for
  /// none.
  std::string optionFile;
  /// Resume from the newest complete checkpoint in `out`, or start at the first
  /// step if there is none. The following steps are bitwise the same as in an
  /// uninterrupted run.
  bool resume = false;
  /// Remove the run that `out` contains once this one can start.
  bool overwrite = false;
  /// If several injections have a batch for a step, the last one applies.
  std::vector<Injection> injections;
  /// Held-out samples, on which the loss is evaluated: those of this data, or
  /// the last samples of the training data, which are then not trained on. See
  /// Data::split.
  const Data *evalData = nullptr;
  double evalFraction = 0;
  /// Steps between evaluations; 0 to evaluate only before the first and after
  /// the last step.
  std::int64_t evalEvery = 0;
  /// Consecutive evaluations without improvement that end training; 0 for no
  /// limit. A loss improves if it is lower than the one that improved last by
  /// more than `minDelta`.
  std::int64_t patience = 0;
  double minDelta = 0;
  /// Keep the checkpoint with the lowest held-out loss, and copy its state to
  /// best.safetensors.
  bool keepBest = false;
  /// Steps between checkpoints; 0 to write one only if the run ends before its
  /// last step.
  std::int64_t saveEvery = 0;
  std::int64_t keep = 2; ///< How many of the newest checkpoints to keep.
  /// Time limit in seconds, at which training stops; 0 for none.
  double maxSeconds = 0;
  /// Stops training after this step, even if it is before `steps`; 0 for never.
  std::int64_t stopAfter = 0;
  /// Ends the training loop after this step, so that training can continue
  /// under another policy; 0 for never.
  std::int64_t switchAfter = 0;
  /// Number of first steps whose gradients are written.
  std::int64_t saveGradients = 0;
  /// File for the inputs of the last step: its ports, named "role/name", before
  /// the step, with the last of its batches; empty for none.
  std::string saveInputs;
  /// File for the ranges of the values of all steps; empty for none.
  std::string recordRanges;
  /// The default is Stop; with a loss scaler, which adapts the scale by
  /// skipping overflows, it is Skip.
  std::optional<OnNonFinite> onNonFinite;
  /// Consecutive skipped steps that end training with exit code 4; 0 for no
  /// limit.
  std::int64_t maxSkipped = 50;
  /// The rules that are evaluated after each step. Rules about statistics that
  /// the program does not compute raise no alarm.
  AlarmSettings alarms;
  /// Called before each batch. An exit code other than 0 ends training with
  /// that code, after the state of the last complete step is saved.
  std::function<int()> interrupted;
  Notify warn;   ///< Receives warnings.
  Notify notify; ///< Receives remarks about the start of the run.
};

/// The metrics of one step over all its batches, as in metrics.jsonl.
struct StepMetrics {
  /// Counted from 1; 0 for an evaluation before the first step, which has only
  /// a held-out loss.
  std::int64_t step = 0;
  double loss = 0;                    ///< Unscaled, before the update.
  std::optional<double> gradNorm;     ///< Unscaled, before clipping.
  std::optional<double> lossScale;    ///< Loss scale of this step.
  std::optional<double> learningRate; ///< The setting `lr` of this step.
  bool skipped = false;               ///< Whether the update was skipped.
  double milliseconds = 0;            ///< Time to read the batches and compute.
  std::optional<double> evalLoss;     ///< Held-out loss after the step.
  std::vector<EvaluationMetric> evalMetrics;
  double evalMilliseconds = 0;
};

/// Reads the metrics of the step that `program` has just completed; `step` is
/// not set, and `loss` is that of the last batch. `scale` is the loss scale
/// before the step, if the program has one.
StepMetrics readMetrics(const Program &program, std::optional<double> scale);

/// The result of a run.
struct TrainSummary {
  std::int64_t steps = 0, skipped = 0;
  double lastLoss = 0;
  std::optional<double> evalLoss; ///< The last held-out loss.
  std::vector<EvaluationMetric> evalMetrics;
  std::int64_t evalStep = 0; ///< The step after which it was evaluated.
  EvaluationHistory evaluations;
  bool isStalled = false; ///< Whether `patience` ended training.
  double milliseconds = 0;
  std::uint32_t epochs = 0; ///< Epochs started.
  bool isAlarmed = false;   ///< Whether an alarm ended training.
  /// Whether training should continue under another policy, because of an
  /// alarm or of `switchAfter`.
  bool switchesPolicy = false;
  /// The code of `interrupted`, or NumericGuard if an alarm with the action
  /// Stop ended training or the final weights are not finite.
  int exitCode = ExitCode::Ok;
};

/// Returns an error if `options.out` contains results of a run that training
/// would destroy. `train` checks it, too; a caller may do so before it
/// compiles.
Result<void> checkForEarlierRun(const TrainOptions &options);

/// Trains an initialized program and calls `listener` after each step. Exit
/// codes of errors: invalid options (2), invalid data or a checkpoint of
/// another run (3), non-finite gradients or loss (4), the file system (5), a
/// directory in use by another process (8). After an error of code 4,
/// final.safetensors contains the last good state.
Result<TrainSummary>
train(Program &program, const Data &data, const TrainOptions &options,
      const std::function<void(const StepMetrics &)> &listener = {});

} // namespace binade

#endif // BINADE_RUNTIME_TRAINING_H
