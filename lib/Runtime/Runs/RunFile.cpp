//===- RunFile.cpp - Writer of run.json -----------------------------------===//

#include "RunFile.h"
#include "binade/Container/AtomicFile.h"
#include "binade/Container/Json.h"
#include "binade/Container/Sha256.h"
#include "binade/Runtime/Library.h"
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sys/utsname.h>

using namespace binade;
using Json = nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// Properties of one command
//===----------------------------------------------------------------------===//

/// Returns the command line of this process. Invalid UTF-8 is replaced when the
/// file is written.
static Json describeCommand() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  Json words = Json::array();
  for (std::string word; std::getline(file, word, '\0');)
    words.push_back(word);
  return words;
}

/// Returns how many processors this process may run on.
static int countProcessors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return ::sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask)
                                                          : 1;
}

static Json describeMachine(const Manifest &manifest) {
  Json machine = manifest.machine;
  machine["cpu"] = getProcessorName();
  machine["cores"] = countProcessors();
  utsname system;
  if (::uname(&system) == 0)
    machine["system"] = std::string(system.sysname) + " " + system.release +
                        " " + system.machine;
  return machine;
}

static Result<Json>
describeFiles(const std::map<std::string, std::string> &files) {
  Json described = Json::object();
  for (const auto &[what, path] : files) {
    Result<ExternalFile> file = openFile(path);
    if (!file)
      return file.takeError();
    Result<std::string> hash = sha256(*file, 0, file->getSize());
    if (!hash)
      return hash.takeError();
    described[what] = {
        {"path", path}, {"bytes", file->getSize()}, {"sha256", *hash}};
  }
  return described;
}

/// Lists the implementations of contractions, because they may change the last
/// bits of results.
static Json describeContractions(const Program &program) {
  Json choices = Json::array();
  for (const ContractionChoice &choice : program.listContractions()) {
    Json &described = choices.emplace_back();
    described = {{"program", choice.program},
                 {"record", choice.record},
                 {"by", choice.implementation.empty() ? "own kernel"
                                                      : choice.implementation}};
    if (!choice.refusal.empty())
      described["refusal"] = choice.refusal;
  }
  return choices;
}

static Result<Json> describeInvocation(const Program &program,
                                       const TrainOptions &options,
                                       const Manifest &manifest) {
  Result<Json> files = describeFiles(options.files);
  if (!files)
    return files;
  char started[32];
  std::time_t now = std::time(nullptr);
  std::tm utc;
  std::strftime(started, sizeof(started), "%FT%TZ", ::gmtime_r(&now, &utc));
  std::error_code ignored;
  return Json{{"started", started},
              {"after_step", manifest.step},
              {"steps", options.steps},
              {"epochs", options.epochs > 0 ? Json(options.epochs) : Json()},
              {"policy", program.getPlan().policy},
              {"command", describeCommand()},
              {"directory", std::filesystem::current_path(ignored).string()},
              {"files", *std::move(files)},
              {"machine", describeMachine(manifest)},
              {"contractions", describeContractions(program)},
              {"extra_bytes", program.getExtraBytes()}};
}

/// Returns the invocations that the file at `path` lists.
static Json readInvocations(const std::string &path, const Notify &warn) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return Json::array();
  Result<ExternalFile> file = openFile(path);
  Result<std::string> text =
      file ? readText(*file, JsonLimits().bytes) : file.takeError();
  Result<nlohmann::json> read =
      text ? parseJson(*text, printable(path)) : text.takeError();
  if (read && read->is_object() && read->contains("invocations") &&
      (*read)["invocations"].is_array())
    return (*read)["invocations"];
  if (warn)
    warn(printable(path) + " is damaged: its list of earlier commands is lost");
  return Json::array();
}

//===----------------------------------------------------------------------===//
// Properties of the whole run
//===----------------------------------------------------------------------===//

static Json describePolicyTexts(const Plan &plan) {
  Json texts = Json::array();
  for (const plan::PolicyText &policy : plan.policyTexts)
    texts.push_back({{"name", policy.name},
                     {"hash", policy.hash},
                     {"text", policy.text},
                     {"costs", policy.costs}});
  return texts;
}

static Json describeRun(const Plan &plan, const Data &data,
                        const HeldOut &heldOut, const TrainOptions &options,
                        const Manifest &manifest) {
  Json ledger = Json::object();
  for (const auto &[category, bytes] : plan.ledger)
    ledger[std::string(name(category))] = bytes;
  Json settings = Json::object();
  for (const Setting &setting : getSettings(plan))
    settings[setting.name] = setting.value;
  Json schedules = Json::object();
  for (const Schedule &schedule : options.schedules)
    schedules[schedule.getName()] = schedule.getExpression();
  return {{"model", plan.model},
          {"dims", plan.dims},
          {"policy", plan.policy},
          {"policy_hash", plan.policyHash},
          {"policy_texts", describePolicyTexts(plan)},
          {"computation", manifest.run.at("computation")},
          {"ops", plan.ops},
          {"casts", plan.casts},
          {"settings", std::move(settings)},
          {"schedules", std::move(schedules)},
          {"samples", heldOut.getTrainingSamples()},
          {"eval_samples", heldOut.getNumSamples()},
          {"batch", data.getBatch()},
          {"batches", plan.batches},
          {"order", options.order == Order::Shuffle ? "shuffle" : "sequential"},
          {"seed", options.seed},
          {"arena_bytes", plan.arenaBytes},
          {"ledger", std::move(ledger)}};
}

static Result<void> write(const std::string &path, const Json &object) {
  return writeTextFile(
      path, object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Result<Json> binade::writeRunFile(const std::string &path,
                                  const Program &program, const Data &data,
                                  const HeldOut &heldOut,
                                  const TrainOptions &options,
                                  const Manifest &manifest) {
  Result<Json> invocation = describeInvocation(program, options, manifest);
  if (!invocation)
    return invocation.takeError();
  Json object =
      describeRun(program.getPlan(), data, heldOut, options, manifest);
  Json &invocations = object["invocations"];
  invocations = options.resume ? readInvocations(path, options.warn)
                               : Json(Json::array());
  invocations.push_back(*std::move(invocation));
  if (Result<void> written = write(path, object); !written)
    return written.takeError();
  return object;
}

Result<void> binade::writeOutcome(const std::string &path, Json described,
                                  const TrainSummary &summary) {
  const auto &lowest = summary.evaluations.lowest;
  if (!lowest)
    return {};
  described["invocations"].back()["outcome"] = {
      {"steps", summary.steps},
      {"stopped_early", summary.isStalled},
      {"best_step", lowest->step},
      {"best_eval_loss", lowest->value}};
  return write(path, described);
}
