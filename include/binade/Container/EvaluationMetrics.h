//===- EvaluationMetrics.h - Names of held-out metrics ----------*- C++ -*-===//
// The compiler adds results to the program `evaluate` from which the runtime
// computes metrics of classifiers. Both know the results by these names.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_EVALUATIONMETRICS_H
#define BINADE_CONTAINER_EVALUATIONMETRICS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace binade {

/// The number of labels of a batch that are not ignored.
inline constexpr std::string_view kEvalLabels = "eval_labels";
/// The sum of their cross-entropies.
inline constexpr std::string_view kEvalEntropy = "eval_entropy";
/// The perplexity of a batch.
inline constexpr std::string_view kEvalPerplexity = "eval_perplexity";
/// With K appended: how many of them are among the K classes with the largest
/// logits.
inline constexpr std::string_view kEvalTop = "eval_top";

inline constexpr std::string_view kAccuracy = "accuracy";
inline constexpr std::string_view kPerplexity = "perplexity";

/// Returns the K of a metric: 1 for "accuracy", 5 for "top5"; nothing for other
/// names.
std::optional<std::int64_t> findTop(std::string_view metric);

/// Whether a metric has this name: "accuracy", "perplexity", or "top" with a
/// positive integer.
bool isEvaluationMetric(std::string_view metric);

/// Returns the metric that a result of this name was requested for; nothing for
/// other results.
std::optional<std::string> findMetricOfResult(std::string_view result);

/// Whether a result of this name is one of the above.
bool isEvaluationResult(std::string_view result);

} // namespace binade

#endif // BINADE_CONTAINER_EVALUATIONMETRICS_H
