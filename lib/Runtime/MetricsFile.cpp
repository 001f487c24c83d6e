//===- MetricsFile.cpp - Metrics as JSON lines ----------------------------===//

#include "MetricsFile.h"
#include "binade/Container/Json.h"
#include <cmath>
#include <fstream>

using namespace binade;

Result<MetricsFile> MetricsFile::open(const std::string &path,
                                      std::int64_t step, const Notify &warn) {
  Result<AppendFile> appended = AppendFile::open(path);
  if (!appended)
    return appended.takeError();
  std::ifstream file(path, std::ios::binary);
  std::int64_t lines = 0;
  std::size_t end = 0;
  for (std::string line; lines < step && std::getline(file, line); ++lines) {
    // A line that a dying process began has no end.
    Result<nlohmann::json> object = parseJson(line, printable(path));
    if (file.eof() || !object || !object->is_object() ||
        object->value("step", nlohmann::json()) != lines + 1)
      break;
    end += line.size() + 1;
  }
  if (lines < step && warn)
    warn(printable(path) + " lacks lines of the steps from " +
         std::to_string(lines + 1) + " to " + std::to_string(step));
  if (Result<void> cut = appended->cut(end); !cut)
    return cut.takeError();
  return MetricsFile(*std::move(appended));
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
      {"lr", number(metrics.learningRate)},
      {"eval_loss", number(metrics.evalLoss)},
      {"skipped", metrics.skipped},
      {"ms", std::round(metrics.milliseconds * 1e3) / 1e3}};
  return file.write(object.dump() + "\n");
}
