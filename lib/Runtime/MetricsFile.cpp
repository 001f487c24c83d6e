//===- MetricsFile.cpp - Metrics as JSON lines ----------------------------===//

#include "MetricsFile.h"
#include "nlohmann/json.hpp"
#include <cerrno>
#include <cmath>
#include <fcntl.h>

using namespace binade;

Result<MetricsFile> MetricsFile::create(const std::string &path) {
  Descriptor descriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!descriptor)
    return systemError(printable(path), "cannot create", errno);
  return MetricsFile(std::move(descriptor), path);
}

static nlohmann::ordered_json number(std::optional<double> value) {
  if (!value || !std::isfinite(*value))
    return nullptr;
  return *value;
}

Result<void> MetricsFile::write(const StepMetrics &metrics) {
  nlohmann::ordered_json object = {
      {"step", metrics.step},
      {"loss", number(metrics.loss)},
      {"grad_norm", number(metrics.gradNorm)},
      {"loss_scale", number(metrics.lossScale)},
      {"skipped", metrics.skipped},
      {"ms", std::round(metrics.milliseconds * 1e3) / 1e3}};
  std::string line = object.dump() + "\n";
  for (std::size_t done = 0; done < line.size();) {
    ssize_t count =
        ::write(descriptor.get(), line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(printable(path), "cannot write", errno);
    done += static_cast<std::size_t>(count);
  }
  return {};
}
