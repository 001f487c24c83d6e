//===- HeldOut.h - Evaluation on held-out samples ---------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_HELDOUT_H
#define BINADE_LIB_RUNTIME_TRAINING_HELDOUT_H

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
  /// Returns the number of held-out samples in complete batches; the remainder
  /// is not evaluated.
  std::uint64_t getNumSamples() const {
    return source ? samples / source->getBatch() * source->getBatch() : 0;
  }
  const Data *getData() const { return source; } ///< Null without samples.
  /// Returns a message about the number of samples and of those left out.
  std::string describe() const;
  /// Whether to evaluate after `step`.
  bool isDue(std::int64_t step) const;

  /// Returns the mean loss of all batches, or nothing if interrupted.
  Result<std::optional<double>> evaluate() const;

private:
  HeldOut(Program &program, const TrainOptions &options)
      : program(&program), options(&options) {}

  Program *program;
  const TrainOptions *options;
  const Data *source = nullptr;
  std::uint64_t first = 0, samples = 0, trainingSamples = 0;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_HELDOUT_H
