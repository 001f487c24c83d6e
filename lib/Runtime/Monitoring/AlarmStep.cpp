//===- AlarmStep.cpp - Metrics of a step for alarm rules ------------------===//

#include "../Runs/AppendFile.h"
#include "AlarmWatch.h"
#include <cmath>
#include <filesystem>

using namespace binade;

/// Adds `highest`, the largest exponent of a tensor, and `lowest`, the exponent
/// below which are at most 1 % of its elements. Ignores zeros and non-finite
/// elements.
static void addExponents(AlarmNumbers &numbers,
                         const std::map<int, double> &counts) {
  constexpr double kFew = 0.01;
  constexpr int kZero = kFirstExponent, kNotFinite = 128;
  double total = 0, seen = 0;
  for (auto [exponent, count] : counts)
    if (exponent != kZero && exponent != kNotFinite)
      total += count;
  for (auto [exponent, count] : counts) {
    if (exponent == kZero || exponent == kNotFinite)
      continue;
    if (seen <= kFew * total && seen + count > kFew * total)
      numbers["lowest"] = exponent;
    seen += count;
    numbers["highest"] = exponent;
  }
}

static std::string withoutFormat(std::string_view statistic) {
  return std::string(statistic.substr(0, statistic.find('(')));
}

AlarmStep::AlarmStep(const StepMetrics &of, std::span<const Observed> observed)
    : step(of.step) {
  metrics = {{"loss", of.loss},
             {"eval_loss", of.evalLoss.value_or(NAN)},
             {"grad_norm", of.gradNorm.value_or(NAN)},
             {"loss_scale", of.lossScale.value_or(NAN)},
             {"lr", of.learningRate.value_or(NAN)},
             {"skipped", of.skipped}};
  for (const Observed &one : observed) {
    if (places.empty() || places.back().kind != one.kind ||
        places.back().layer != one.layer)
      places.push_back({std::string(one.kind), std::string(one.layer), {}});
    AlarmNumbers &numbers = places.back().statistics;
    if (one.exponents.empty()) {
      numbers[withoutFormat(one.statistic)] = one.number;
      continue;
    }
    std::map<int, double> counts;
    for (std::size_t bin = 0; bin < one.exponents.size(); ++bin)
      if (one.exponents[bin] != 0)
        counts[static_cast<int>(bin) + kFirstExponent] =
            static_cast<double>(one.exponents[bin]);
    addExponents(numbers, counts);
  }
}

//===----------------------------------------------------------------------===//
// From the files of a run
//===----------------------------------------------------------------------===//

static double getNumber(const nlohmann::json &value) {
  return value.is_boolean()  ? value.get<bool>()
         : value.is_number() ? value.get<double>()
                             : NAN;
}

AlarmStep::AlarmStep(const nlohmann::json &line) : step(line.at("step")) {
  for (const char *name :
       {"loss", "eval_loss", "grad_norm", "loss_scale", "lr", "skipped"})
    metrics[name] = getNumber(line.value(name, nlohmann::json()));
}

void AlarmStep::add(const nlohmann::json &line) {
  AlarmPlace &place =
      places.emplace_back(AlarmPlace{line.at("kind"), line.at("layer"), {}});
  for (const auto &[name, value] : line.items()) {
    if (name == "step" || name == "kind" || name == "layer")
      continue;
    if (!value.is_object()) {
      place.statistics[withoutFormat(name)] = getNumber(value);
      continue;
    }
    std::map<int, double> counts;
    for (const auto &[exponent, count] : value.items())
      counts[std::stoi(exponent)] = getNumber(count);
    addExponents(place.statistics, counts);
  }
}

Result<std::vector<Alarm>> AlarmWatch::observe(const std::string &directory,
                                               std::int64_t last) {
  std::map<std::int64_t, AlarmStep> steps;
  Result<void> read =
      readJsonLines(directory + "/metrics.jsonl", [&](const auto &line) {
        AlarmStep step(line);
        // Step 0 is an evaluation before the first step.
        if (step.step > 0 && step.step <= last)
          steps.insert_or_assign(step.step, std::move(step));
      });
  if (read)
    read = readJsonLines(directory + "/stats.jsonl", [&](const auto &line) {
      if (auto step = steps.find(line.at("step")); step != steps.end())
        step->second.add(line);
    });
  if (!read)
    return read.takeError();
  std::vector<Alarm> alarms;
  for (const auto &[number, step] : steps)
    for (Alarm &alarm : observe(step))
      alarms.push_back(std::move(alarm));
  return alarms;
}

Result<std::vector<Alarm>>
binade::findAlarms(const std::string &directory,
                   const std::vector<AlarmRule> &rules) {
  std::error_code unknown;
  if (!std::filesystem::exists(directory + "/metrics.jsonl", unknown))
    return Error{printable(directory), "not a run directory: expected a file "
                                       "metrics.jsonl of 'binade train'"};
  return AlarmWatch(rules).observe(directory,
                                   std::numeric_limits<std::int64_t>::max());
}
