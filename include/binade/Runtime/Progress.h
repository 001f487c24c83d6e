//===- Progress.h - Progress display of training ----------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_PROGRESS_H
#define BINADE_RUNTIME_PROGRESS_H

#include "binade/Runtime/Training.h"
#include <iosfwd>

namespace binade {

/// Prints step, loss, the last held-out loss, learning rate, norm of the
/// gradients, loss scale, skipped steps, steps per second and the remaining
/// time; values that a step does not have are left out. On a terminal one line
/// is rewritten at most ten times a second; elsewhere a line is added every two
/// seconds. The first and the last step are always shown. Times are those of
/// the metrics.
class Progress {
public:
  Progress(std::ostream &out, bool isTerminal, std::int64_t steps)
      : out(out), isTerminal(isTerminal), steps(steps) {}

  void show(const StepMetrics &metrics);
  /// Ends the line, before something else is printed.
  void finish();

private:
  std::string format(const StepMetrics &metrics) const;

  std::ostream &out;
  bool isTerminal, lineIsOpen = false;
  std::int64_t steps, done = 0, skipped = 0;
  std::optional<double> evalLoss;
  double elapsed = 0, shown = 0; ///< In milliseconds.
  double recent = 0; ///< Milliseconds per step, exponential moving average.
};

} // namespace binade

#endif // BINADE_RUNTIME_PROGRESS_H
