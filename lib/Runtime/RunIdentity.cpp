//===- RunIdentity.cpp - What makes a run the same run --------------------===//

#include "RunIdentity.h"
#include "Views.h"
#include "binade/Container/Sha256.h"
#include "binade/Plan/PlanJson.h"

using namespace binade;
using namespace binade::plan;

/// What a target decides: how a kernel's work is divided, and the memory that
/// this takes.
static void forgetTarget(Launch &launch, const std::vector<Buffer> &buffers) {
  auto isScratch = [&](const View &view) {
    const Buffer &buffer = buffers[view.buffer];
    return buffer.category == Category::Workspace && buffer.name.empty() &&
           buffer.dtype == DType::I8;
  };
  launch.grain = 1;
  launch.finish = false;
  launch.finishOperands.clear();
  for (Segment &segment : launch.segments) {
    segment.extent = 0;
    std::erase_if(segment.operands, isScratch);
  }
}

static void forgetMachine(std::vector<Record> &records,
                          const std::vector<Buffer> &buffers) {
  for (Record &record : records) {
    if (auto *matmul = std::get_if<Matmul>(&record.body)) {
      matmul->scratch.reset();
      matmul->kernel.clear();
    }
    if (auto *convolution = std::get_if<Convolution>(&record.body)) {
      convolution->scratch.reset();
      convolution->deviceKernel.clear();
    }
    if (auto *launch = std::get_if<Launch>(&record.body))
      forgetTarget(*launch, buffers);
    if (auto *loop = std::get_if<Loop>(&record.body)) {
      loop->slots = 0;
      forgetMachine(loop->body, buffers);
    }
  }
}

/// Numbers buffers by their first mention, those between records by their type
/// alone: which results lie in place of operands is the target's choice, and
/// scratch memory the machine's.
static void numberBuffers(Plan &plan) {
  std::vector<Buffer> buffers;
  std::map<std::uint32_t, std::uint32_t> ofPorts;
  std::map<std::pair<DType, std::vector<std::int64_t>>, std::uint32_t> ofTypes;
  for (Port &port : plan.ports) {
    auto next = static_cast<std::uint32_t>(buffers.size());
    auto [number, isNew] = ofPorts.try_emplace(port.buffer, next);
    if (isNew)
      buffers.push_back(plan.buffers[port.buffer]);
    port.buffer = number->second;
  }
  auto renumber = [&](View &view) {
    if (auto port = ofPorts.find(view.buffer); port != ofPorts.end()) {
      view.buffer = port->second;
      return;
    }
    const Buffer &buffer = plan.buffers[view.buffer];
    auto next = static_cast<std::uint32_t>(buffers.size());
    auto [number, isNew] =
        ofTypes.try_emplace({buffer.dtype, buffer.shape}, next);
    if (isNew)
      buffers.push_back({"", 0, buffer.bytes, buffer.dtype, buffer.shape});
    view.buffer = number->second;
  };
  for (auto *records : {&plan.records, &plan.accumulation, &plan.evaluation})
    for (Record &record : *records)
      forEachView(record, renumber);
  plan.buffers = std::move(buffers);
}

std::string binade::hashComputation(Plan plan) {
  plan.threads = 0;
  plan.chip.clear();
  plan.deviceKernels.clear();
  plan.arenaBytes = 0;
  plan.ledger.clear();
  for (Port &port : plan.ports)
    port.init = NoInit();
  for (auto *records : {&plan.records, &plan.accumulation, &plan.evaluation})
    forgetMachine(*records, plan.buffers);
  numberBuffers(plan);
  for (Buffer &buffer : plan.buffers)
    buffer.offset = buffer.slot = 0;
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
