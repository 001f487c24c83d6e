//===- HeldOut.h - Evaluation on held-out samples ---------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_HELDOUT_H
#define BINADE_LIB_RUNTIME_TRAINING_HELDOUT_H

#include "EvaluationSums.h"
#include "binade/Runtime/Training.h"

namespace binade {

/// The held-out samples of a run, on which the loss is evaluated: the last
/// samples of the training data, or a separate file. May be empty.
class HeldOut {
public:
  static Result<HeldOut> create(Program &program, const Data &data,
                                const TrainOptions &options);

  /// Returns the number of samples that are trained on.
  std::uint64_t getTrainingSamples() const { return trainingSamples; }
  /// Returns the number of held-out samples that are evaluated.
  std::uint64_t getNumSamples() const {
    return source ? usesRest ? samples : samples - getRest() : 0;
  }
  /// Decides whether the samples after the last complete batch are evaluated:
  /// if `earlier`, the number of samples that the run has evaluated, says so,
  /// or else if the loss of a batch is the mean over its samples. For this, the
  /// first batch is evaluated as a whole and in parts.
  /// Returns whether it is decided: nothing is if the run is interrupted.
  Result<bool> chooseSamples(std::optional<std::uint64_t> earlier);
  const Data *getData() const { return source; } ///< Null without samples.
  /// Returns a message about the number of samples and of those left out.
  std::string describe() const;
  /// Whether to evaluate after `step`.
  bool isDue(std::int64_t step) const;

  /// Returns the mean loss and the metrics of the evaluated samples, or nothing
  /// if interrupted.
  Result<std::optional<Evaluation>> evaluate() const;

private:
  HeldOut(Program &program, const TrainOptions &options)
      : program(&program), options(&options) {}

  std::uint64_t getRest() const { return samples % source->getBatch(); }
  bool isInterrupted() const {
    return options->interrupted && options->interrupted() != ExitCode::Ok;
  }
  /// Evaluates `count` samples from `sample` on, which are repeated to fill a
  /// batch, and adds the results to `sums`. `count` divides the size of a
  /// batch.
  Result<void> evaluate(std::uint64_t sample, std::uint64_t count,
                        EvaluationSums &sums) const;
  /// Evaluates `count` samples, which do not fill a batch. Returns whether it
  /// was not interrupted.
  Result<bool> evaluateRest(std::uint64_t sample, std::uint64_t count,
                            EvaluationSums &sums) const;

  Program *program;
  const TrainOptions *options;
  const Data *source = nullptr;
  std::uint64_t first = 0, samples = 0, trainingSamples = 0;
  bool usesRest = false; ///< Whether all samples are evaluated.
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_HELDOUT_H
