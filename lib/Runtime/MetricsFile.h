//===- MetricsFile.h - Metrics as JSON lines --------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_METRICSFILE_H
#define BINADE_RUNTIME_METRICSFILE_H

#include "binade/Container/Descriptor.h"
#include "binade/Runtime/Training.h"

namespace binade {

/// One JSON object per line and step: `step`, `loss`, `grad_norm`,
/// `loss_scale`, `eval_loss`, `skipped`, `ms`. Numbers that JSON cannot hold,
/// and those that are not known, are null. A line is in the file when `write`
/// returns.
class MetricsFile {
public:
  static Result<MetricsFile> create(const std::string &path);
  /// Cuts off what follows `step`. Where lines are missing, `warn` hears of it.
  static Result<MetricsFile> resume(const std::string &path, std::int64_t step,
                                    const Notify &warn);
  Result<void> write(const StepMetrics &metrics);
  /// Brings all lines to disk.
  Result<void> sync();

private:
  MetricsFile(Descriptor descriptor, std::string path)
      : descriptor(std::move(descriptor)), path(std::move(path)) {}

  Descriptor descriptor;
  std::string path;
};

} // namespace binade

#endif // BINADE_RUNTIME_METRICSFILE_H
