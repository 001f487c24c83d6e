//===- RunIdentity.cpp - What makes a run the same run --------------------===//

#include "RunIdentity.h"
#include "binade/Container/Sha256.h"
#include "binade/Plan/PlanJson.h"

using namespace binade;
using namespace binade::plan;

static void forgetMachine(std::vector<Record> &records) {
  for (Record &record : records) {
    if (auto *matmul = std::get_if<Matmul>(&record.body))
      matmul->scratch.reset();
    if (auto *convolution = std::get_if<Convolution>(&record.body))
      convolution->scratch.reset();
    if (auto *loop = std::get_if<Loop>(&record.body)) {
      loop->slots = 0;
      forgetMachine(loop->body);
    }
  }
}

std::string binade::hashComputation(Plan plan) {
  plan.threads = 0;
  plan.arenaBytes = 0;
  plan.ledger.clear();
  for (Buffer &buffer : plan.buffers) {
    buffer.offset = buffer.slot = 0;
    if (buffer.category == Category::Library) {
      buffer.bytes = 0;
      buffer.shape.clear();
    }
  }
  for (Port &port : plan.ports)
    port.init = NoInit();
  forgetMachine(plan.records);
  forgetMachine(plan.accumulation);
  forgetMachine(plan.evaluation);
  return sha256(writePlan(plan));
}

std::map<std::string, std::string> binade::identifyProgram(const Plan &plan) {
  return {{"model", plan.model},
          {"computation", hashComputation(plan)},
          {"policy", plan.policy},
          {"policy hash", plan.policyHash}};
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
  for (const Setting &setting : getSettings(plan))
    manifest.run["setting " + setting.name] = formatNumber(setting.value);
  for (const Schedule &schedule : options.schedules)
    manifest.run["schedule " + schedule.getName()] =
        schedule.getExpression() +
        (schedule.usesSteps() ? " with steps = " + std::to_string(options.steps)
                              : "");
  std::string library = oneDnnVersion();
  manifest.machine = {{"binade", BINADE_VERSION},
                      {"threads", std::to_string(program.getThreads())},
                      {"instructions", std::string(program.getIsa())},
                      {"oneDNN", library.empty() ? "none" : library}};
  return manifest;
}
