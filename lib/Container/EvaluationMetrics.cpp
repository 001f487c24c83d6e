//===- EvaluationMetrics.cpp - Names of held-out metrics ------------------===//

#include "binade/Container/EvaluationMetrics.h"
#include "binade/Container/ExternalFile.h"
#include <limits>

using namespace binade;

/// Returns the positive integer after `prefix`.
static std::optional<std::int64_t> parseAfter(std::string_view prefix,
                                              std::string_view text) {
  if (!text.starts_with(prefix))
    return std::nullopt;
  std::optional<std::uint64_t> number =
      parseDecimal(text.substr(prefix.size()));
  constexpr std::uint64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (!number || *number == 0 || *number > kMax)
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::optional<std::int64_t> binade::findTop(std::string_view metric) {
  return metric == kAccuracy ? std::optional<std::int64_t>(1)
                             : parseAfter("top", metric);
}

bool binade::isEvaluationMetric(std::string_view metric) {
  return metric == kPerplexity || findTop(metric);
}

std::optional<std::string> binade::findMetricOfResult(std::string_view result) {
  if (result == kEvalPerplexity)
    return std::string(kPerplexity);
  std::optional<std::int64_t> top = parseAfter(kEvalTop, result);
  if (!top)
    return std::nullopt;
  return *top == 1 ? std::string(kAccuracy) : "top" + std::to_string(*top);
}

bool binade::isEvaluationResult(std::string_view result) {
  return result == kEvalLabels || result == kEvalEntropy ||
         findMetricOfResult(result);
}
