//===- Evaluate.cpp - binade evaluate -------------------------------------===//

#include "Alarms.h"
#include "Commands.h"
#include "Model.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/ResumeCommand.h"
#include "binade/Container/EvaluationMetrics.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/Json.h"
#include "binade/Runtime/Evaluation.h"
#include "binade/Runtime/TrainedState.h"
#include <cmath>
#include <filesystem>
#include <iostream>

namespace fs = std::filesystem;
using ::binade::Data;
using ::binade::DataEvaluation;
using ::binade::DataOptions;
using ::binade::Error;
using ::binade::ExitCode;
using ::binade::printable;
using ::binade::Program;
using ::binade::quote;
using ::binade::Result;
using ::binade::TrainedState;
using mlir::binade::CompileOptions;

/// Requests the number of labels, so that samples which do not fill a batch are
/// evaluated if the loss is a cross-entropy that ignores labels.
static constexpr const char *kLabels = "labels";

namespace {
/// The options of `binade train`, read from the command that trained a run.
struct TrainedBy {
  ImportArguments import;
  StepArguments step;
  OutputArguments output;
  ::binade::TrainArguments train;
  AlarmArguments alarms;
  ::binade::DeviceChoice device;

  std::string directory; ///< That its paths are relative to.

  /// Reads the command of `run`.
  Result<void> read(const std::string &run);
  /// Completes the options. Requires that `directory` was entered.
  Result<void> complete();
  /// Returns the policy under which the run ended.
  std::string findPolicy(const std::string &run) const;

private:
  CLI::App command{"", "train"};
};

struct EvaluateCommand {
  std::string run, checkpoint, init;
  bool usesBest = false;
  std::vector<std::string> metrics;
  ::binade::DataArguments data;
  ::binade::DeviceChoice device;
  OutputArguments output;
  ReportFormat format = ReportFormat::Text;
  CLI::App *command = nullptr;

  int execute();

private:
  int evaluateRun();
  int evaluateBundle();
  Result<std::optional<TrainedState>> openState() const;
  int evaluate(ImportArguments &import, StepArguments &step,
               const ::binade::DeviceChoice &device,
               const DataOptions &options);
  Result<void> checkMetrics(const Program &program) const;
  Result<void> enter(const std::string &directory);
  void print(const DataEvaluation &found, const DataOptions &options,
             const std::optional<TrainedState> &state) const;
  int fail(const Error &error) const {
    std::cerr << render(error, output.format) << "\n";
    return error.exitCode;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// The command that trained a run
//===----------------------------------------------------------------------===//

Result<void> TrainedBy::read(const std::string &run) {
  auto recorded = ::binade::readRecordedCommand(run, {"binade", "train"});
  if (!recorded)
    if (auto other = ::binade::readRecordedCommand(run, {"binade-run"}))
      recorded = std::move(other);
  if (!recorded)
    return recorded.takeError();
  directory = recorded->directory;
  import.add(command, "");
  step.add(command);
  output.add(command);
  ::binade::addDevice(command, device);
  train.add(command);
  alarms.add(command);
  std::vector<std::string> reversed(recorded->words.rbegin(),
                                    recorded->words.rend());
  try {
    command.parse(reversed); // CLI11 takes the words from the end.
  } catch (const CLI::ParseError &error) {
    return Error{printable(run), "the command in run.json cannot be parsed: " +
                                     printable(error.what())};
  }
  return {};
}

Result<void> TrainedBy::complete() {
  train.train.overwrite = true; // The run exists.
  if (Result<void> done = train.complete(); !done)
    return done;
  if (Result<void> done = alarms.complete(step.options); !done)
    return done;
  if (auto answer = train.train.onNonFinite)
    step.options.onNonfinite =
        getCompiledAnswer(*answer, step.options.releaseGradients);
  return {};
}

std::string TrainedBy::findPolicy(const std::string &run) const {
  std::string next = alarms.findNextPolicy(step.options);
  bool wasSwitched = !next.empty() && hasSwitched(run, next);
  return wasSwitched ? next : step.options.policy;
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// Sets parameters and buffers to those of a run or file.
static Result<void> restore(Program &program, const TrainedState &state) {
  std::optional<std::set<std::string>> missing;
  for (const ::binade::Safetensors &file : state.getFiles()) {
    auto restored = program.restore(file);
    if (!restored)
      return restored.takeError();
    std::set<std::string> lacks(restored->missing.begin(),
                                restored->missing.end());
    if (!missing)
      missing = lacks;
    std::erase_if(*missing, [&](auto &name) { return !lacks.contains(name); });
  }
  if (missing && !missing->empty())
    return Error{state.getPath(), "lacks " + std::to_string(missing->size()) +
                                      " parameters and buffers, such as " +
                                      quote(*missing->begin())};
  return {};
}

Result<void> EvaluateCommand::checkMetrics(const Program &program) const {
  std::vector<std::string> known;
  for (const auto &port : program.getPlan().ports)
    if (port.role == ::binade::plan::Role::Metric)
      if (auto metric = ::binade::findMetricOfResult(port.name))
        known.push_back(*metric);
  for (const std::string &metric : metrics)
    if (std::ranges::find(known, metric == "top1" ? "accuracy" : metric) ==
        known.end())
      return usageError("the bundle does not compute the metric " +
                        quote(metric) + ": compile it with --metric=" + metric);
  return {};
}

static nlohmann::ordered_json toJson(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr;
}

void EvaluateCommand::print(const DataEvaluation &found,
                            const DataOptions &options,
                            const std::optional<TrainedState> &state) const {
  const ::binade::Evaluation &results = found.results;
  std::string weights = state ? state->getPath() : run;
  std::optional<std::int64_t> step = state ? state->getStep() : std::nullopt;
  if (format == ReportFormat::Json) {
    nlohmann::ordered_json object = {
        {"state", weights},       {"step", nullptr},
        {"data", options.path},   {"samples", found.samples},
        {"unused", found.unused}, {"eval_loss", toJson(results.loss)}};
    if (step)
      object["step"] = *step;
    for (const auto &metric : results.metrics)
      object["eval_" + metric.name] = toJson(metric.value);
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    std::cout << object.dump(2, ' ', false, kReplace) << "\n";
    return;
  }
  std::cout << "state: " << printable(weights);
  if (step)
    std::cout << " after step " << *step;
  std::cout << "\ndata: " << found.samples << " samples of "
            << printable(options.path);
  if (found.unused > 0)
    std::cout << " (" << found.unused
              << " unused: no full batch, and the loss of a batch is not the "
                 "mean over its samples or labels)";
  std::cout << "\neval_loss " << ::binade::formatNumber(results.loss) << "\n";
  for (const auto &metric : results.metrics)
    std::cout << "eval_" << metric.name << " "
              << ::binade::formatNumber(metric.value) << "\n";
}

/// Opens the selected weights; returns nothing for those in a bundle.
Result<std::optional<TrainedState>> EvaluateCommand::openState() const {
  if (!fs::is_directory(run) && init.empty())
    return std::optional<TrainedState>();
  Result<TrainedState> state =
      init.empty() ? TrainedState::open(
                         run, usesBest ? run + "/best.safetensors" : checkpoint)
                   : TrainedState::open(init);
  if (!state)
    return state.takeError();
  return std::optional(*std::move(state));
}

int EvaluateCommand::evaluate(ImportArguments &import, StepArguments &step,
                              const ::binade::DeviceChoice &device,
                              const DataOptions &options) {
  // Opened before compiling, so that a wrong path is found at once.
  auto state = openState();
  if (!state)
    return fail(state.error());
  Model model(import.model, output);
  ::binade::LoadOptions load;
  load.threads = step.options.threads;
  load.device = device;
  load.notify = [](std::string_view text) {
    std::cerr << "binade: " << text << "\n";
  };
  auto loaded = model.load(import, step, load);
  if (auto *code = std::get_if<int>(&loaded))
    return *code;
  auto &program = std::get<Program>(loaded);
  if (Result<void> computed = checkMetrics(program); !computed)
    return fail(computed.error());
  Result<Data> opened = Data::open(program, options);
  if (!opened)
    return fail(opened.error());
  Result<void> ready = program.initialize(0);
  if (ready && *state)
    ready = restore(program, **state);
  if (!ready)
    return fail(ready.error());
  auto found = ::binade::evaluate(program, *opened);
  if (!found)
    return fail(found.error());
  print(**found, options, *state);
  return ExitCode::Ok;
}

//===----------------------------------------------------------------------===//
// Runs and bundles
//===----------------------------------------------------------------------===//

/// Enters the directory of the run's command, to which its paths are relative.
Result<void> EvaluateCommand::enter(const std::string &directory) {
  std::error_code failure;
  if (fs::equivalent(directory, fs::current_path(failure), failure))
    return {};
  auto makeAbsolute = [](std::string &path) {
    path = fs::absolute(path).lexically_normal().string();
  };
  makeAbsolute(run);
  makeAbsolute(data.options.path);
  for (auto &[name, path] : data.options.constants)
    makeAbsolute(path);
  if (!::binade::parseDecimal(checkpoint) && !checkpoint.empty())
    makeAbsolute(checkpoint);
  fs::current_path(directory, failure);
  if (failure)
    return ::binade::systemError(printable(directory), "cannot enter",
                                 failure.value())
        .withNote("the command of the run was executed there, and its paths "
                  "are relative to it");
  return {};
}

int EvaluateCommand::evaluateRun() {
  if (!init.empty())
    return fail(usageError("--init is for a bundle; --best and --checkpoint "
                           "select other weights of a run"));
  TrainedBy trained;
  if (Result<void> read = trained.read(run); !read)
    return fail(read.error());
  if (Result<void> entered = enter(trained.directory); !entered)
    return fail(entered.error());
  if (Result<void> completed = trained.complete(); !completed)
    return fail(completed.error());
  CompileOptions &compile = trained.step.options;
  compile.policy = trained.findPolicy(run);
  llvm::append_range(compile.metrics, metrics);
  compile.metrics.push_back(kLabels);
  DataOptions options = trained.train.getData();
  options.path = data.options.path;
  if (!data.options.windows.empty()) {
    options.windows = data.options.windows;
    options.stride = data.options.stride;
  }
  llvm::append_range(options.constants, data.options.constants);
  return evaluate(trained.import, trained.step,
                  command->count("--device") > 0 ? device : trained.device,
                  options);
}

int EvaluateCommand::evaluateBundle() {
  if (usesBest || !checkpoint.empty())
    return fail(usageError(std::string(usesBest ? "--best" : "--checkpoint") +
                           " selects weights of a run, but " + quote(run) +
                           " is a file; --init names weights for a bundle"));
  CLI::App unused("", "train");
  ImportArguments import;
  StepArguments step;
  import.add(unused, "");
  step.add(unused);
  import.model = run;
  step.options.metrics = metrics;
  step.options.metrics.push_back(kLabels);
  return evaluate(import, step, device, data.options);
}

int EvaluateCommand::execute() {
  std::error_code failure;
  run = ::binade::findRunDirectory(run);
  if (!fs::exists(run, failure))
    return fail(
        Error{printable(run),
              "does not exist; expected the directory of a run, or a bundle "
              "that 'binade compile' wrote"});
  if (Result<void> done = data.complete(); !done)
    return fail(done.error());
  return fs::is_directory(run) ? evaluateRun() : evaluateBundle();
}

void addEvaluate(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "evaluate",
      "Compute the loss and metrics of a run or bundle on a data file");
  command->footer(
      "The model is compiled with the options of the run. Dropout is off, and "
      "batch norm\nuses running statistics.\n"
      "Examples:\n"
      "  binade evaluate run --data test.safetensors --metric accuracy\n"
      "  binade evaluate stopped --best --data test.safetensors --format json\n"
      "  binade evaluate step.bnd --init run/final.safetensors --data "
      "test.safetensors");
  auto self = std::make_shared<EvaluateCommand>();
  self->command = command;
  command
      ->add_option("run", self->run,
                   "Directory of a run, or a bundle that 'binade compile' "
                   "wrote")
      ->required()
      ->type_name("RUN");
  self->data.add(*command)->required();
  auto *best = command->add_flag(
      "--best", self->usesBest,
      "Evaluate the state with the lowest eval_loss, RUN/best.safetensors, "
      "instead of the final one");
  command
      ->add_option("--checkpoint", self->checkpoint,
                   "Checkpoint of the run to evaluate instead of the final "
                   "state, by step, such as 100, or by path")
      ->type_name("STEP|PATH")
      ->excludes(best);
  command
      ->add_option("--init", self->init,
                   "With a bundle: the file with the weights to evaluate, "
                   "instead of those in the bundle")
      ->type_name("FILE.safetensors");
  addMetric(*command, self->metrics);
  ::binade::addDevice(*command, self->device);
  addReportFormat(*command, self->format);
  self->output.add(*command);
  command->callback([&run, self] { run = [self] { return self->execute(); }; });
}
