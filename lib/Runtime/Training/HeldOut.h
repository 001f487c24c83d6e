//===- HeldOut.h - Samples that training does not see -----------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_HELDOUT_H
#define BINADE_LIB_RUNTIME_TRAINING_HELDOUT_H

#include "binade/Runtime/Training.h"

namespace binade {

/// Samples of the training data, or of a file of their own, on whose loss one
/// sees what a model has learned. There may be none.
class HeldOut {
public:
  static Result<HeldOut> create(Program &program, const Data &data,
                                const TrainOptions &options);

  /// Of the training data.
  std::uint64_t getTrainingSamples() const { return trainingSamples; }
  /// In whole batches; what is left over is not evaluated.
  std::uint64_t getNumSamples() const {
    return source ? samples / source->getBatch() * source->getBatch() : 0;
  }
  const Data *getData() const { return source; } ///< Null without samples.
  /// Which samples there are and which are left over, for people.
  std::string describe() const;
  /// Whether the loss is asked for after `step`.
  bool isDue(std::int64_t step) const;

  /// The mean of all batches' losses. Nothing when `interrupted` says so.
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
