//===- MetricsFile.h - Metrics as JSON lines --------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_MONITORING_METRICSFILE_H
#define BINADE_LIB_RUNTIME_MONITORING_METRICSFILE_H

#include "../Runs/AppendFile.h"
#include "binade/Runtime/Training.h"

namespace binade {

/// One JSON object per line and step: `step`, `loss`, `grad_norm`,
/// `loss_scale`, `lr`, `eval_loss`, `skipped`, `ms`. Numbers that JSON cannot
/// hold, and those that are not known, are null. A line is in the file when
/// `write` returns.
class MetricsFile {
public:
  /// Cuts off what follows `step`, if the file is there. Where lines are
  /// missing, `warn` hears of it.
  static Result<MetricsFile> open(const std::string &path, std::int64_t step,
                                  const Notify &warn);
  Result<void> write(const StepMetrics &metrics);
  /// Brings all lines to disk.
  Result<void> sync() { return file.sync(); }

private:
  explicit MetricsFile(AppendFile file) : file(std::move(file)) {}

  AppendFile file;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_MONITORING_METRICSFILE_H
