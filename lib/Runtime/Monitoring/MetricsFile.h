//===- MetricsFile.h - Metrics as JSON lines --------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_METRICSFILE_H
#define BINADE_LIB_RUNTIME_MONITORING_METRICSFILE_H

#include "../Runs/AppendFile.h"
#include "binade/Runtime/Training.h"

namespace binade {

/// Writes the metrics of each step as one line of JSON with the fields `step`,
/// `loss`, `grad_norm`, `loss_scale`, `lr`, `eval_loss`, `skipped`, `ms`.
/// Values that are unknown or not finite are null. `write` does not buffer
/// lines.
class MetricsFile {
public:
  /// Removes the lines after `step` from an existing file. Warns if lines up to
  /// `step` are missing. If the evaluation after `step` is pending, also
  /// removes the line of `step`, to be written again.
  static Result<MetricsFile> open(const std::string &path, std::int64_t step,
                                  const Notify &warn, bool isPending = false);
  /// Returns the metrics of the step whose evaluation is pending.
  const StepMetrics &getPending() const { return pending; }
  Result<void> write(const StepMetrics &metrics);
  /// Syncs all lines to disk.
  Result<void> sync() { return file.sync(); }

private:
  MetricsFile(AppendFile file, const StepMetrics &pending)
      : file(std::move(file)), pending(pending) {}

  AppendFile file;
  StepMetrics pending;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_METRICSFILE_H
