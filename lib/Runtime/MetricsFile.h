//===- MetricsFile.h - Metrics as JSON lines --------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_METRICSFILE_H
#define BINADE_RUNTIME_METRICSFILE_H

#include "binade/Container/Descriptor.h"
#include "binade/Runtime/Training.h"

namespace binade {

/// One JSON object per line and step: `step`, `loss`, `grad_norm`,
/// `loss_scale`, `skipped`, `ms`. Numbers that JSON cannot hold, and those that
/// the program does not have, are null. A line is in the file when `write`
/// returns.
class MetricsFile {
public:
  static Result<MetricsFile> create(const std::string &path);
  Result<void> write(const StepMetrics &metrics);

private:
  MetricsFile(Descriptor descriptor, std::string path)
      : descriptor(std::move(descriptor)), path(std::move(path)) {}

  Descriptor descriptor;
  std::string path;
};

} // namespace binade

#endif // BINADE_RUNTIME_METRICSFILE_H
