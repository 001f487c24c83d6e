//===- MetricsFile.cpp - Metrics as JSON lines ----------------------------===//

#include "MetricsFile.h"
#include "binade/Container/Json.h"
#include <cerrno>
#include <cmath>
#include <fcntl.h>
#include <fstream>

using namespace binade;

Result<MetricsFile> MetricsFile::create(const std::string &path) {
  Descriptor descriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!descriptor)
    return systemError(printable(path), "cannot create", errno);
  return MetricsFile(std::move(descriptor), path);
}

Result<MetricsFile> MetricsFile::resume(const std::string &path,
                                        std::int64_t step, const Notify &warn) {
  Descriptor descriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!descriptor)
    return systemError(printable(path), "cannot open", errno);
  std::ifstream file(path, std::ios::binary);
  std::int64_t lines = 0;
  off_t end = 0;
  for (std::string line; lines < step && std::getline(file, line); ++lines) {
    // A line that a dying process began has no end.
    Result<nlohmann::json> object = parseJson(line, printable(path));
    if (file.eof() || !object || !object->is_object() ||
        object->value("step", nlohmann::json()) != lines + 1)
      break;
    end += static_cast<off_t>(line.size() + 1);
  }
  if (lines < step && warn)
    warn(printable(path) + " lacks lines of the steps from " +
         std::to_string(lines + 1) + " to " + std::to_string(step));
  if (::ftruncate(descriptor.get(), end) != 0)
    return systemError(printable(path), "cannot cut off its end", errno);
  return MetricsFile(std::move(descriptor), path);
}

Result<void> MetricsFile::sync() {
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL)
    return systemError(printable(path), "cannot bring the file to disk", errno);
  return {};
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
      {"eval_loss", number(metrics.evalLoss)},
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
