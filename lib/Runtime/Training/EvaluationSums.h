//===- EvaluationSums.h - Sums of an evaluation over batches ----*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_EVALUATIONSUMS_H
#define BINADE_LIB_RUNTIME_TRAINING_EVALUATIONSUMS_H

#include "binade/Runtime/Evaluation.h"

namespace binade {

/// Adds up the results of evaluated batches. The loss is the mean over the
/// samples. If the program counts labels, their number differs between batches,
/// because some are ignored, and the loss of each batch is the mean
/// cross-entropy of its labels, then it is the mean over all labels.
class EvaluationSums {
public:
  explicit EvaluationSums(const Program &program);

  /// Adds the batch that `program` has just evaluated, which contains
  /// `count` different samples, a part `share` of the batch.
  void add(double loss, std::uint64_t count, double share);
  double getLoss() const;
  Evaluation getResults() const;

private:
  struct Sum {
    std::string result; ///< Name of the program's result that is added up.
    std::string metric;
    double value = 0;
  };
  double read(std::string_view result) const {
    return *readScalar(*program, plan::Role::Metric, result);
  }

  const Program *program;
  bool countsLabels = false;
  double samples = 0, losses = 0; ///< `losses` is weighted by samples.
  double labels = 0, entropies = 0;
  /// The number of labels of the last batch.
  std::optional<double> lastLabels;
  bool isUniform = true;     ///< Whether all batches have this number.
  bool isMeanEntropy = true; ///< Whether losses are mean cross-entropies.
  std::vector<Sum> sums;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_EVALUATIONSUMS_H
