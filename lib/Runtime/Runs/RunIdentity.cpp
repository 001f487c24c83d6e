//===- RunIdentity.cpp - Properties that identify a run -------------------===//

#include "RunIdentity.h"

using namespace binade;

std::map<std::string, std::string> binade::identifyProgram(const Plan &plan) {
  return {{"model", plan.model},
          {"computation", plan.computation},
          {"policy", plan.policy},
          {"policy hash", plan.policyHash}};
}

std::string binade::describeProperty(std::string_view key) {
  for (std::string_view kind : {"setting ", "schedule "})
    if (key.starts_with(kind))
      return std::string(kind) + describeSetting(key.substr(kind.size()));
  return printable(key);
}

std::string binade::nameInjection(std::size_t index, std::int64_t step) {
  return "injection " + std::to_string(index + 1) + " at step " +
         std::to_string(step);
}

Manifest binade::identifyRun(const Program &program, const Data &data,
                             const HeldOut &heldOut,
                             const TrainOptions &options) {
  const Plan &plan = program.getPlan();
  Manifest manifest;
  manifest.run = identifyProgram(plan);
  manifest.run["samples"] = std::to_string(heldOut.getTrainingSamples());
  manifest.run["batch"] = std::to_string(data.getBatch());
  manifest.run["order"] =
      options.order == Order::Shuffle ? "shuffle" : "sequential";
  manifest.run["seed"] = std::to_string(options.seed);
  for (std::size_t i = 0; i < options.injections.size(); ++i) {
    const Injection &one = options.injections[i];
    manifest.run[nameInjection(i, one.step)] =
        std::to_string(one.data->getNumSamples()) + " samples";
  }
  for (const Setting &setting : getSettings(plan))
    manifest.run["setting " + setting.name] = formatNumber(setting.value);
  for (const Schedule &schedule : options.schedules)
    manifest.run["schedule " + schedule.getName()] =
        schedule.getExpression() +
        (schedule.usesSteps()
             ? std::string(kWithSteps) + std::to_string(options.steps)
             : "");
  std::string library = oneDnnVersion();
  manifest.machine = {{"binade", BINADE_VERSION},
                      {"threads", std::to_string(program.getThreads())},
                      {"instructions", std::string(program.getIsa())},
                      {"oneDNN", library.empty() ? "none" : library}};
  return manifest;
}
