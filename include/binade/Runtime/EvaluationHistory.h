//===- EvaluationHistory.h - Held-out losses of a run -----------*- C++ -*-===//

#ifndef BINADE_RUNTIME_EVALUATIONHISTORY_H
#define BINADE_RUNTIME_EVALUATIONHISTORY_H

#include <cstdint>
#include <optional>

namespace binade {

/// What early stopping and the best checkpoint need to know about the held-out
/// losses of a run so far. Checkpoints contain it, so that a resumed run
/// decides as an uninterrupted one.
struct EvaluationHistory {
  struct Loss {
    double value = 0;
    std::int64_t step = 0; ///< The step after which it was evaluated.
    bool operator==(const Loss &) const = default;
  };
  std::optional<Loss> lowest; ///< The first one of the lowest value.
  /// The last loss that improved: that was lower than the one that improved
  /// before it by more than the minimum difference.
  std::optional<Loss> improved;
  std::int64_t stalled = 0; ///< Evaluations since `improved`.
  /// Whether the evaluation after the last step was interrupted.
  bool isPending = false;

  bool operator==(const EvaluationHistory &) const = default;

  /// Adds a loss. Returns whether it is the lowest so far. A loss that is not
  /// finite never improves.
  bool add(Loss loss, double minDelta);
};

} // namespace binade

#endif // BINADE_RUNTIME_EVALUATIONHISTORY_H
