//===- Progress.cpp - Progress display of training ------------------------===//

#include "binade/Runtime/Progress.h"
#include <algorithm>
#include <cstdio>
#include <ostream>

using namespace binade;

/// Returns a duration such as `0:07`, `12:30` or `1:02:03`.
static std::string formatDuration(double seconds) {
  auto whole = static_cast<long long>(seconds + 0.5);
  char text[64];
  if (whole < 3600)
    std::snprintf(text, sizeof(text), "%lld:%02lld", whole / 60, whole % 60);
  else
    std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld", whole / 3600,
                  whole / 60 % 60, whole % 60);
  return text;
}

std::string Progress::format(const StepMetrics &metrics) const {
  char text[64];
  std::string line =
      "step " + std::to_string(metrics.step) + "/" + std::to_string(steps);
  std::snprintf(text, sizeof(text), "  loss %.5g", metrics.loss);
  line += text;
  auto add = [&](const char *pattern, const std::optional<double> &value) {
    if (!value)
      return;
    std::snprintf(text, sizeof(text), pattern, *value);
    line += text;
  };
  add("  eval %.5g", evalLoss);
  add("  lr %.3g", metrics.learningRate);
  add("  grad_norm %.3g", metrics.gradNorm);
  add("  scale %g", metrics.lossScale);
  line += "  skipped " + std::to_string(skipped);
  double rate = 1000 / recent;
  std::snprintf(text, sizeof(text),
                rate < 1000 ? "  %.3g steps/s" : "  %.0f steps/s", rate);
  line += text;
  return line + "  ETA " +
         formatDuration((steps - metrics.step) * recent / 1000);
}

void Progress::show(const StepMetrics &metrics) {
  constexpr double kTerminalPeriod = 100, kPlainPeriod = 2000; // Milliseconds.
  constexpr double kWeight = 0.05; // Of a step in the moving average.
  double last = std::max(metrics.milliseconds, 1e-3);
  elapsed += last + metrics.evalMilliseconds;
  if (metrics.evalLoss)
    evalLoss = metrics.evalLoss;
  skipped += metrics.skipped;
  // The first step also warms caches, so the average starts with the second.
  recent = ++done <= 2 ? last : recent + kWeight * (last - recent);
  bool isFirstOrLast = done == 1 || metrics.step == steps;
  if (!isFirstOrLast &&
      elapsed - shown < (isTerminal ? kTerminalPeriod : kPlainPeriod))
    return;
  shown = elapsed;
  if (isTerminal)
    // Without line wrap, a line that is too long stays one line.
    out << "\r\033[?7l" << format(metrics) << "\033[K\033[?7h" << std::flush;
  else
    out << format(metrics) << std::endl;
  lineIsOpen = isTerminal;
}

void Progress::finish() {
  if (lineIsOpen)
    out << std::endl;
  lineIsOpen = false;
}
