//===- Train.cpp - binade train -------------------------------------------===//

#include "Alarms.h"
#include "Commands.h"
#include "Model.h"
#include "OptionFile.h"
#include "PolicySchedule.h"
#include "Requantize.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/TrainArguments.h"
#include "binade/Container/JoinFirst.h"
#include <iostream>
#include <set>

using ::binade::AlarmSettings;
using ::binade::Program;
using ::binade::Result;

namespace {
struct TrainCommand {
  ImportArguments import;
  StepArguments step;
  OutputArguments output;
  ::binade::TrainArguments train;
  AlarmArguments alarms;
  ::binade::DeviceChoice device;

  int run();

private:
  std::string next; ///< The policy to switch to at an alarm.

  int complete();
  int fail(const ::binade::Error &error) const {
    std::cerr << render(error, output.format) << "\n";
    return error.exitCode;
  }
  /// Trains under `policy`. If `converts`, first converts the newest checkpoint
  /// of the run to this policy.
  int trainUnder(const std::string &policy, bool converts, bool isLast);
  int trainUnder(const PolicySchedule &schedule);
  std::variant<Program, int> load(Model &model, const std::string &policy,
                                  bool loadsPlanOnly) const;
  Result<void> convert(Program &program) const;
  /// Compiles the policies of a schedule and checks them. Returns the number of
  /// steps of the run, or the exit code after an error was reported.
  std::variant<int64_t, int> check(const PolicySchedule &schedule);
};
} // namespace

/// Prints how many of the model's parameters are trained, and which are not.
static void printTrained(const std::vector<std::string> &parameters,
                         const ::binade::Plan &plan) {
  std::set<std::string> trained;
  for (const ::binade::plan::Port &port : plan.ports)
    if (port.role == ::binade::plan::Role::Parameter)
      trained.insert(port.name);
  std::vector<std::string> others;
  for (const std::string &name : parameters)
    if (!trained.contains(name))
      others.push_back(::binade::quote(name));
  std::cout << "trained: " << parameters.size() - others.size() << " of "
            << parameters.size() << " parameters";
  constexpr size_t kShown = 4;
  if (!others.empty())
    std::cout << "; not trained: " << ::binade::joinFirst(others, kShown);
  std::cout << std::endl;
}

/// Validates options and sets the compiler options that training needs.
int TrainCommand::complete() {
  if (Result<void> complete = train.complete(); !complete)
    return fail(complete.error());
  if (Result<void> complete = alarms.complete(step.options); !complete)
    return fail(complete.error());
  next = alarms.findNextPolicy(step.options);
  if (!step.options.metrics.empty() && !train.hasHeldOut())
    return fail(usageError("--metric needs --eval-data or --eval-fraction"));
  const ::binade::TrainOptions &options = train.train;
  if (!next.empty() && !options.recordRanges.empty())
    return fail(usageError("--record cannot continue under another policy, as "
                           "the run would after an alarm: use --on-alarm "
                           "warn"));
  if (options.onNonFinite)
    step.options.onNonfinite =
        getCompiledAnswer(*options.onNonFinite, step.options.releaseGradients);
  step.options.keepGradients = options.saveGradients > 0;
  if (!options.recordRanges.empty())
    step.options.statistics = mlir::binade::kRangeStatistics.str();
  return ::binade::ExitCode::Ok;
}

Result<void> TrainCommand::convert(Program &program) const {
  Result<::binade::Converted> converted =
      switchRun(program, train.train.out, train.train.keep, requantize);
  if (!converted)
    return converted.takeError();
  std::cout << ::binade::printable(converted->to) << ": policy "
            << ::binade::printable(converted->policyFrom) << " -> "
            << ::binade::printable(converted->policyTo) << ", "
            << converted->tensors << " tensors, of which "
            << converted->requantized << " from or to quantized values; "
            << converted->unused.size() << " left out, "
            << converted->initial.size() << " as at the start" << std::endl;
  return {};
}

std::variant<Program, int> TrainCommand::load(Model &model,
                                              const std::string &policy,
                                              bool loadsPlanOnly) const {
  ::binade::LoadOptions load;
  load.threads = step.options.threads;
  load.device = device;
  load.loadsPlanOnly = loadsPlanOnly;
  load.notify = [](std::string_view text) {
    std::cerr << "binade: " << text << "\n";
  };
  // Copied, because training under another policy completes them again.
  ImportArguments imported = import;
  StepArguments stepped = step;
  stepped.options.policy = policy;
  return model.load(imported, stepped, load);
}

int TrainCommand::trainUnder(const std::string &policy, bool converts,
                             bool isLast) {
  Model model(import.model, output);
  auto loaded = load(model, policy, /*loadsPlanOnly=*/false);
  if (auto *code = std::get_if<int>(&loaded))
    return *code;
  auto &program = std::get<Program>(loaded);
  train.train.alarms = program.getPlan().alarms;
  if (const auto &names = model.getParameterNames(); !names.empty())
    printTrained(names, program.getPlan());
  if (model.isBundle()) {
    auto chosen = alarms.chooseOf(train.train.alarms, output);
    if (auto *code = std::get_if<int>(&chosen))
      return *code;
    train.train.alarms = std::get<AlarmSettings>(std::move(chosen));
  }
  if (isLast) // No other policy is left to switch to.
    train.train.alarms.action = ::binade::OnAlarm::Warn;
  if (converts)
    if (Result<void> converted = convert(program); !converted)
      return model.getDiagnostics().fail(converted.error());
  Result<int> code = train.run(program, import.model, model.getDirectory());
  return code ? *code : model.getDiagnostics().fail(code.error());
}

std::variant<int64_t, int> TrainCommand::check(const PolicySchedule &schedule) {
  Model model(import.model, output);
  // With --epochs, the number of steps depends on the data. Opening these needs
  // the whole program.
  auto first = load(model, schedule[0].policy,
                    /*loadsPlanOnly=*/train.train.epochs == 0);
  if (auto *code = std::get_if<int>(&first))
    return *code;
  auto &program = std::get<Program>(first);
  Result<int64_t> steps = train.findTotalSteps(program);
  if (!steps)
    return fail(steps.error());
  for (size_t i = 1; i < schedule.size(); ++i) {
    Model other(import.model, output);
    auto loaded = load(other, schedule[i].policy, /*loadsPlanOnly=*/true);
    if (auto *code = std::get_if<int>(&loaded))
      return *code;
    if (Result<void> checked = PolicySchedule::checkStates(
            program.getPlan(), std::get<Program>(loaded).getPlan(),
            schedule[i]);
        !checked)
      return fail(checked.error());
    if (int64_t end = schedule.findEnd(i - 1, *steps); end >= *steps)
      std::cerr << "binade: warning: training ends after step " << *steps
                << ", before policy " << ::binade::printable(schedule[i].policy)
                << ", which begins after step " << end << "\n";
  }
  return *steps;
}

int TrainCommand::trainUnder(const PolicySchedule &schedule) {
  if (!next.empty())
    return fail(usageError("--on-alarm switch:POLICY cannot be used with a "
                           "policy that has a schedule"));
  if (!train.train.recordRanges.empty())
    return fail(usageError("--record cannot be used with a policy that has a "
                           "schedule"));
  auto checked = check(schedule);
  if (auto *code = std::get_if<int>(&checked))
    return *code;
  int64_t steps = std::get<int64_t>(checked);
  PolicySchedule::Position position;
  if (train.train.resume)
    position = schedule.findPosition(train.train.out, steps);
  auto start = std::chrono::steady_clock::now();
  double limit = train.train.maxSeconds;
  for (;;) {
    train.train.switchAfter = schedule.findEnd(position.part, steps);
    int code = trainUnder(schedule[position.part].policy, position.converts,
                          /*isLast=*/false);
    if (code != ::binade::ExitCode::Ok || !train.switchesPolicy)
      return code;
    position = {schedule.findPart(train.train.switchAfter, steps), true};
    train.train.resume = true;
    std::chrono::duration<double> elapsed =
        std::chrono::steady_clock::now() - start;
    constexpr double kMinSeconds = 1e-3; // 0 would remove the limit.
    if (limit > 0)
      train.train.maxSeconds = std::max(limit - elapsed.count(), kMinSeconds);
  }
}

int TrainCommand::run() {
  if (int code = complete())
    return code;
  bool isBundle = Model(import.model, output).isBundle();
  if (!isBundle)
    if (auto schedule = PolicySchedule::load(step.options.policy);
        !schedule.isEmpty())
      return trainUnder(schedule);
  bool switches = !next.empty() && !isBundle;
  bool wasSwitched =
      switches && train.train.resume && hasSwitched(train.train.out, next);
  if (!wasSwitched) {
    int code = trainUnder(step.options.policy, /*converts=*/false,
                          /*isLast=*/false);
    if (code != ::binade::ExitCode::Ok || !switches || !train.switchesPolicy)
      return code;
  }
  train.train.resume = true;
  return trainUnder(next, /*converts=*/!wasSwitched, /*isLast=*/true);
}

void addTrain(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "train", "Train an ONNX model or a compiled bundle");
  command->footer(
      "Examples:\n"
      "  binade train model.onnx --data train.safetensors --policy bf16-amp "
      "\\\n"
      "      --optimizer adamw --lr 1e-3 --set weight_decay=0.01 --steps 1000 "
      "--out run\n"
      "  binade train model.onnx --data train.safetensors --epochs 3 "
      "--schedule cosine \\\n"
      "      --warmup 5% --optimizer adamw --decay matrices --out epochs\n"
      "  binade train step.bnd --data train.safetensors --steps 100 --out "
      "tuned "
      "\\\n"
      "      --init run/final.safetensors --lr 3e-4\n"
      "  binade train step.bnd --data train.safetensors --steps 100 "
      "--save-every 20 \\\n"
      "      --resume survivor\n"
      "  binade train --resume survivor --steps 200\n"
      "  binade train model.onnx --data train.safetensors --eval-fraction 0.1 "
      "\\\n"
      "      --eval-every 50 --metric accuracy --patience 5 --steps 1000 --out "
      "stopped\n"
      "  binade train model.onnx --data train.safetensors --policy fp16-amp "
      "--steps 1000 \\\n"
      "      --out watched --alarms all --on-alarm switch:bf16-amp");
  auto self = std::make_shared<TrainCommand>();
  self->import.add(*command,
                   "ONNX file, a module (.mlir) of a phase up to 'optimizer', "
                   "or a bundle that 'binade compile' wrote");
  self->step.add(*command);
  self->output.add(*command);
  ::binade::addDevice(*command, self->device);
  self->train.add(*command);
  self->alarms.add(*command);
  command->callback([&run, self, command] {
    ::binade::requireRun(*command);
    self->train.train.optionFile = printOptionFile(*command);
    run = [self] { return self->run(); };
  });
}
