//===- RunFile.cpp - What a run is made of, as JSON -----------------------===//

#include "RunFile.h"
#include "nlohmann/json.hpp"

using namespace binade;

Result<void> binade::writeRunFile(const std::string &path,
                                  const Program &program, const Data &data,
                                  const HeldOut &heldOut,
                                  const TrainOptions &options) {
  const Plan &plan = program.getPlan();
  nlohmann::ordered_json ledger = nlohmann::ordered_json::object();
  for (const auto &[category, bytes] : plan.ledger)
    ledger[std::string(name(category))] = bytes;
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  for (const Setting &setting : getSettings(plan))
    settings[setting.name] = setting.value;
  nlohmann::ordered_json object = {
      {"binade", BINADE_VERSION},
      {"model", plan.model},
      {"dims", plan.dims},
      {"policy", plan.policy},
      {"policy_hash", plan.policyHash},
      {"ops", plan.ops},
      {"casts", plan.casts},
      {"settings", std::move(settings)},
      {"data", data.getPath()},
      {"samples", heldOut.getTrainingSamples()},
      {"eval_data", heldOut.getData()
                        ? nlohmann::ordered_json(heldOut.getData()->getPath())
                        : nullptr},
      {"eval_samples", heldOut.getNumSamples()},
      {"batch", data.getBatch()},
      {"steps", options.steps},
      {"order", options.order == Order::Shuffle ? "shuffle" : "sequential"},
      {"seed", options.seed},
      {"threads", program.getThreads()},
      {"isa", program.getIsa()},
      {"onednn", oneDnnVersion()},
      {"arena_bytes", plan.arenaBytes},
      {"extra_bytes", program.getExtraBytes()},
      {"ledger", std::move(ledger)}};
  return writeTextFile(path, object.dump(2) + "\n");
}
