//===- MetricsFile.cpp - Metrics as JSON lines ----------------------------===//

#include "MetricsFile.h"
#include <cmath>
#include <utility>

using namespace binade;

/// Reads a line that `MetricsFile::write` wrote.
static StepMetrics parse(const nlohmann::json &line) {
  auto get = [&](const char *name) {
    nlohmann::json value = line.value(name, nlohmann::json());
    return value.is_number() ? std::optional(value.get<double>())
                             : std::nullopt;
  };
  StepMetrics metrics;
  metrics.step = line.at("step");
  metrics.loss = get("loss").value_or(NAN);
  metrics.gradNorm = get("grad_norm");
  metrics.lossScale = get("loss_scale");
  metrics.learningRate = get("lr");
  metrics.skipped = line.value("skipped", nlohmann::json()) == true;
  metrics.milliseconds = get("ms").value_or(0);
  return metrics;
}

Result<MetricsFile> MetricsFile::open(const std::string &path,
                                      std::int64_t step, const Notify &warn,
                                      bool isPending) {
  std::int64_t lines = 0;
  StepMetrics pending;
  pending.step = step;
  pending.loss = NAN;
  bool isFirst = true;
  auto stays = [&](const nlohmann::json &object) {
    nlohmann::json number = object.value("step", nlohmann::json());
    // The held-out loss before the first step.
    if (std::exchange(isFirst, false) && number == 0)
      return step > 0;
    if (lines == step || number != lines + 1)
      return false;
    ++lines;
    if (isPending && lines == step)
      pending = parse(object);
    return !isPending || lines < step;
  };
  Result<AppendFile> appended = AppendFile::open(path, stays);
  if (!appended)
    return appended.takeError();
  if (lines < step && warn)
    warn(printable(path) + " lacks lines of the steps from " +
         std::to_string(lines + 1) + " to " + std::to_string(step));
  return MetricsFile(*std::move(appended), pending);
}

static nlohmann::ordered_json number(std::optional<double> value) {
  if (!value || !std::isfinite(*value))
    return nullptr;
  return *value;
}

Result<void> MetricsFile::write(const StepMetrics &metrics) {
  nlohmann::ordered_json object = {{"step", metrics.step},
                                   {"loss", number(metrics.loss)},
                                   {"grad_norm", number(metrics.gradNorm)},
                                   {"loss_scale", number(metrics.lossScale)},
                                   {"lr", number(metrics.learningRate)},
                                   {"eval_loss", number(metrics.evalLoss)}};
  for (const EvaluationMetric &metric : metrics.evalMetrics)
    object["eval_" + metric.name] = number(metric.value);
  object["skipped"] = metrics.skipped;
  object["ms"] = std::round(metrics.milliseconds * 1e3) / 1e3;
  return file.write(object.dump() + "\n");
}
