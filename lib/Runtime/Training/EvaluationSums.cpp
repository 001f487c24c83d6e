//===- EvaluationSums.cpp - Sums of an evaluation over batches ------------===//

#include "EvaluationSums.h"
#include "binade/Container/EvaluationMetrics.h"
#include <cmath>

using namespace binade;
using plan::Role;

EvaluationSums::EvaluationSums(const Program &program) : program(&program) {
  const Plan &plan = program.getPlan();
  countsLabels = plan.findPort(Role::Metric, kEvalLabels) &&
                 plan.findPort(Role::Metric, kEvalEntropy);
  if (!countsLabels)
    return;
  for (const plan::Port &port : plan.ports)
    if (port.role == Role::Metric)
      if (std::optional<std::string> metric = findMetricOfResult(port.name))
        sums.push_back({port.name, *metric});
}

void EvaluationSums::add(double loss, std::uint64_t count, double share) {
  samples += static_cast<double>(count);
  losses += loss * static_cast<double>(count);
  if (!countsLabels)
    return;
  double found = read(kEvalLabels), entropy = read(kEvalEntropy);
  isUniform &= found == lastLabels.value_or(found);
  lastLabels = found;
  // Without labels the loss is NaN. Sums in f32 in another order differ by
  // less.
  constexpr double kTolerance = 1e-4;
  isMeanEntropy &= found == 0 || std::abs(loss - entropy / found) <=
                                     kTolerance * std::abs(loss);
  labels += found * share;
  entropies += entropy * share;
  for (Sum &sum : sums)
    if (sum.metric != kPerplexity)
      sum.value += read(sum.result) * share;
}

double EvaluationSums::getLoss() const {
  return countsLabels && isMeanEntropy && !isUniform ? entropies / labels
                                                     : losses / samples;
}

Result<Evaluation> binade::evaluateBatch(Program &program) {
  Result<double> loss = program.evaluate();
  if (!loss)
    return loss.takeError();
  EvaluationSums sums(program);
  sums.add(*loss, /*count=*/1, /*share=*/1);
  return sums.getResults();
}

Evaluation EvaluationSums::getResults() const {
  Evaluation results;
  results.loss = getLoss();
  for (const Sum &sum : sums)
    results.metrics.push_back({sum.metric, sum.metric == kPerplexity
                                               ? std::exp(entropies / labels)
                                               : sum.value / labels});
  return results;
}
