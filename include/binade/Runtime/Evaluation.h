//===- Evaluation.h - Results on held-out samples ---------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_EVALUATION_H
#define BINADE_RUNTIME_EVALUATION_H

#include "binade/Runtime/Data.h"
#include "binade/Runtime/Program.h"

namespace binade {

/// A metric of a classifier: "accuracy", "top5" or "perplexity".
struct EvaluationMetric {
  std::string name;
  double value = 0;
};

/// The loss and the metrics of held-out samples.
struct Evaluation {
  double loss = 0;
  std::vector<EvaluationMetric> metrics; ///< Those that the program computes.
};

/// Evaluates the current batch.
Result<Evaluation> evaluateBatch(Program &program);

/// An evaluation of all samples of a file.
struct DataEvaluation {
  Evaluation results;
  std::uint64_t samples = 0; ///< Evaluated samples.
  /// Samples after the last full batch that were left out.
  std::uint64_t unused = 0;
};

/// Evaluates the samples of `data` with the current parameters. Returns nothing
/// if `interrupted` returns an exit code other than 0. An error if the program
/// has no evaluation.
Result<std::optional<DataEvaluation>>
evaluate(Program &program, const Data &data,
         const std::function<int()> &interrupted = {});

} // namespace binade

#endif // BINADE_RUNTIME_EVALUATION_H
