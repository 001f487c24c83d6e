//===- TrainArguments.cpp - Options of training ---------------------------===//

#include "binade/CommandLine/TrainArguments.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/EvaluationArguments.h"
#include "binade/CommandLine/Report.h"
#include "binade/CommandLine/ResumeCommand.h"
#include "binade/Container/AtomicFile.h"
#include "binade/Container/JoinFirst.h"
#include "binade/Container/TensorFile.h"
#include "binade/Runtime/Epochs.h"
#include "binade/Runtime/InitialNames.h"
#include "binade/Runtime/Progress.h"
#include <csignal>
#include <filesystem>
#include <iostream>
#include <set>
#include <unistd.h>

using namespace binade;

//===----------------------------------------------------------------------===//
// SettingArguments
//===----------------------------------------------------------------------===//

void SettingArguments::add(CLI::App &command) {
  command.add_option("--lr", lr, "Learning rate; the same as --set lr=FLOAT")
      ->check(number());
  command
      .add_option("--set", texts,
                  "Value of a hyper-parameter, such as weight_decay=0.01")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

/// Parses KEY=NUMBER; returns nothing for other texts.
static std::optional<Setting> parseSetting(const std::string &text) {
  std::size_t equals = text.find('=');
  if (equals == 0 || equals >= text.size() - 1)
    return std::nullopt;
  Setting setting;
  setting.name = text.substr(0, equals);
  char *end;
  setting.value = std::strtod(text.c_str() + equals + 1, &end);
  return *end ? std::nullopt : std::optional(setting);
}

Result<void> SettingArguments::complete(std::string_view named) {
  if (lr)
    texts.insert(texts.begin(), "lr=" + formatNumber(*lr));
  for (const std::string &text : texts) {
    std::size_t equals = text.find('=');
    bool isNamed = !named.empty() && text.substr(0, equals) == named &&
                   equals < text.size() - 1;
    if (!isNamed && !parseSetting(text))
      return usageError("--set expects KEY=VALUE, got " + quote(text));
  }
  return {};
}

std::vector<Setting> SettingArguments::getSettings() const {
  std::vector<Setting> settings;
  for (const std::string &text : texts)
    if (std::optional<Setting> setting = parseSetting(text))
      settings.push_back(*setting);
  return settings;
}

//===----------------------------------------------------------------------===//
// DataArguments
//===----------------------------------------------------------------------===//

CLI::Option *DataArguments::add(CLI::App &command) {
  CLI::Option *data =
      command
          .add_option("--data", options.path,
                      "Data: a .safetensors, .npz or .npy file, or a directory "
                      "of .npy files, with one tensor with all samples for "
                      "each batch input, or streams that --window slices into "
                      "samples")
          ->type_name("FILE");
  command
      .add_option("--window", windows,
                  "Inputs whose samples are slices of a stream: with "
                  "'ids=tokens[0:256],labels=tokens[1:257]', a sample of ids "
                  "is 256 elements of the tensor tokens, and its labels start "
                  "one element later")
      ->type_name("SPEC");
  command
      .add_option("--stride", options.stride,
                  "With --window, elements of the stream from the start of one "
                  "sample to the start of the next; 0 (default) for the length "
                  "of the longest slice")
      ->check(integer<std::int64_t>());
  command
      .add_option("--const", constants,
                  "Batch input with the same value in every step, read from a "
                  ".safetensors, .npz or .npy file")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  command
      .add_option(
          "--batch", options.batch,
          "Batch size that is expected; an error if the model has another one")
      ->check(integer<std::int64_t>(1));
  return data;
}

Result<void> DataArguments::complete() {
  if (windows) {
    Result<std::vector<Window>> parsed = parseWindows(*windows);
    if (!parsed)
      return parsed.takeError();
    options.windows = *std::move(parsed);
  }
  for (const std::string &text : constants) {
    std::size_t equals = text.find('=');
    if (equals == 0 || equals >= text.size() - 1)
      return usageError("--const expects NAME=FILE, got " + quote(text));
    options.constants.emplace_back(text.substr(0, equals),
                                   text.substr(equals + 1));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// TrainArguments
//===----------------------------------------------------------------------===//

void TrainArguments::addEvaluation(CLI::App &command) {
  auto *data = command
                   .add_option("--eval-data", evalData,
                               "Held-out data in the format of --data; their "
                               "mean loss is reported as eval_loss, computed "
                               "without dropout and with running statistics")
                   ->type_name("FILE");
  command
      .add_option("--eval-fraction", train.evalFraction,
                  "Instead of --eval-data: hold out the last samples of "
                  "--data, this fraction of them, such as 0.1")
      ->type_name("F")
      ->check(number({.min = 0, .below = 1}))
      ->excludes(data);
  command
      .add_option("--eval-every", train.evalEvery,
                  "Steps between evaluations; 0 (default) to evaluate only "
                  "before the first and after the last step")
      ->type_name("N")
      ->check(integer<std::int64_t>());
  addEvaluationGoals(command, train);
}

void TrainArguments::addRun(CLI::App &command) {
  schedule.add(command, train);
  auto *out = command
                  .add_option("--out", train.out,
                              "Directory of the run, to write metrics, "
                              "checkpoints and the final state to")
                  ->type_name("RUN");
  auto *overwrite = command.add_flag(
      "--overwrite", train.overwrite,
      "Remove the run that the directory of --out contains, once the new one "
      "can start");
  command
      .add_option("--resume", resume,
                  "Resume this run from its newest checkpoint, or start it "
                  "if it has none; instead of --out. Without a model, the "
                  "command in the run's run.json is used")
      ->type_name("RUN")
      ->excludes(out)
      ->excludes(overwrite);
  command
      .add_option("--save-every", train.saveEvery,
                  "Steps between checkpoints; 0 (default) to save one only if "
                  "the run is stopped early")
      ->type_name("N")
      ->check(integer<std::int64_t>());
  command
      .add_option("--keep", train.keep,
                  "Number of checkpoints to keep, the newest ones")
      ->type_name("K")
      ->check(integer<std::int64_t>(1))
      ->capture_default_str();
  command
      .add_option("--max-seconds", train.maxSeconds,
                  "Stop after this many seconds of training and save a "
                  "checkpoint, with exit code 0")
      ->type_name("S")
      ->check(number({.min = 0}));
  command
      .add_option(
          "--stop-after", train.stopAfter,
          "Stop after step N and save a checkpoint, although --steps is larger")
      ->type_name("N")
      ->check(integer<std::int64_t>(1));
  command
      .add_option("--seed", train.seed,
                  "Seed of random initial values, dropout and the order of "
                  "samples")
      ->check(integer<std::uint64_t>())
      ->capture_default_str();
  command
      .add_option("--init-seed", initSeed,
                  "Seed of random initial values and dropout, instead of "
                  "--seed")
      ->check(integer<std::uint64_t>());
  command
      .add_option("--init", init,
                  "Start from the weights and states in this file, whose "
                  "tensors have the names that final.safetensors uses")
      ->type_name("FILE.safetensors");
  command.add_flag("--init-partial", initPartial,
                   "Accept a file of --init that lacks parameters or buffers; "
                   "they keep their initial values");
  command
      .add_option("--save-grads", train.saveGradients,
                  "Write the gradients of the first K steps to "
                  "RUN/grads-STEP.safetensors, in f32, before clipping")
      ->type_name("K")
      ->check(integer<std::int64_t>());
  command
      .add_option("--save-inputs", train.saveInputs,
                  "Write the inputs of the last step, which are its batch and "
                  "the state before it, for 'binade trace'")
      ->type_name("FILE.safetensors");
  command
      .add_option("--record", record,
                  "Measure the range of each value over all steps and write it "
                  "to FILE.json, for --ranges of a later command")
      ->type_name("ranges=FILE.json");
  command
      .add_option(
          "--on-nonfinite", onNonFinite,
          "What to do if the loss or a gradient is not finite: stop training, "
          "skip the update, continue with it, or shrink the affected "
          "parameters, which needs an optimizer that supports it, such as "
          "tiger; by default skip with loss scaling, or else stop")
      ->check(oneOf({"stop", "skip", "continue", "shrink"}));
  command
      .add_option(
          "--max-skipped", train.maxSkipped,
          "Stop after this many consecutive skipped steps; 0 for no limit")
      ->type_name("N")
      ->check(integer<std::int64_t>())
      ->capture_default_str();
  command
      .add_option("--profile", profile,
                  "Time every kernel and library call, print a table of the "
                  "times, and write a trace that ui.perfetto.dev opens")
      ->type_name("FILE.json");
}

void binade::requireRun(const CLI::App &command) {
  requireLength(command);
  if (command.count("--out") + command.count("--resume") == 0)
    throw CLI::RequiredError("--out");
}

void TrainArguments::add(CLI::App &command) {
  data.add(command)->required();
  command
      .add_option(
          "--order", order,
          "Order of the samples in each epoch: shuffled, or as in the file")
      ->check(oneOf({"shuffle", "sequential"}))
      ->capture_default_str();
  command
      .add_option(
          "--inject", injected,
          "Replace the batches of step N and the following ones by the batches "
          "of this file, in order; the file has the format of --data")
      ->type_name("FILE@N")
      ->allow_extra_args(false);
  addEvaluation(command);
  addRun(command);
}

Result<void> TrainArguments::complete() {
  train.resume = train.out.empty();
  if (train.resume)
    train.out = findRunDirectory(resume);
  if (train.out.empty())
    return usageError("--out needs the name of a directory");
  if (Result<void> checked = checkForEarlierRun(train); !checked)
    return checked;
  if (train.resume && !record.empty())
    return usageError("--record cannot be used with --resume, because "
                      "checkpoints do not contain the ranges of earlier steps");
  if (Result<void> done = data.complete(); !done)
    return done;
  if (train.evalEvery > 0 && !hasHeldOut())
    return usageError("--eval-every needs --eval-data or --eval-fraction");
  if (Result<void> done = completeEvaluationGoals(train, hasHeldOut()); !done)
    return done;
  for (const std::string &text : injected) {
    std::size_t at = text.rfind('@');
    std::optional<std::uint64_t> step =
        at == text.npos ? std::nullopt
                        : parseDecimal(std::string_view(text).substr(at + 1));
    constexpr std::uint64_t kMax = std::numeric_limits<std::int32_t>::max();
    if (at == 0 || !step || *step == 0 || *step > kMax)
      return usageError("--inject expects FILE@N, where N is a step from 1 on, "
                        "got " +
                        quote(text));
    injections.emplace_back(text.substr(0, at), *step);
  }
  if (Result<void> done = schedule.complete(train); !done)
    return done;
  train.order = order == "shuffle" ? Order::Shuffle : Order::Sequential;
  if (!onNonFinite.empty())
    train.onNonFinite = parseOnNonFinite(onNonFinite);
  if (!record.empty()) {
    constexpr std::string_view kRanges = "ranges=";
    if (!record.starts_with(kRanges) || record.size() == kRanges.size())
      return usageError("--record expects ranges=FILE, got " + quote(record));
    train.recordRanges = record.substr(kRanges.size());
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Training
//===----------------------------------------------------------------------===//

/// The signal that was received; 0 for none.
static volatile std::sig_atomic_t signalSeen = 0;

/// Makes the first SIGINT or SIGTERM end training after a batch, the second one
/// immediately. A closed output pipe does not end training, and exceeding the
/// file size limit is a write error.
static void catchSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { signalSeen = number; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

/// Lists the input files of the run by their purpose; weights are in
/// `directory`.
std::map<std::string, std::string>
TrainArguments::listFiles(const Program &program, const std::string &model,
                          const std::string &directory) const {
  std::map<std::string, std::string> files = {{"model", model}};
  auto add = [&](const std::string &purpose, const std::string &path) {
    std::vector<std::string> parts = listTensorFiles(path);
    for (const std::string &part : parts)
      files[parts.size() == 1
                ? purpose
                : purpose + " " + std::filesystem::path(part).stem().string()] =
          part;
  };
  add("data", data.options.path);
  if (!evalData.empty())
    add("eval_data", evalData);
  for (std::size_t i = 0; i < injections.size(); ++i)
    files[nameInjection(i, injections[i].second)] = injections[i].first;
  if (!init.empty())
    files["init"] = init;
  for (const auto &[name, file] : data.options.constants)
    files["const " + name] = file;
  for (const plan::Port &port : program.getPlan().ports)
    if (auto *weights = std::get_if<plan::ExternalInit>(&port.init))
      files["weights " + weights->file] =
          (std::filesystem::path(directory) / weights->file).string();
  return files;
}

static void warnAbout(const std::vector<std::string> &names,
                      std::string_view what) {
  constexpr std::size_t kMax = 20;
  if (names.empty())
    return;
  std::vector<std::string> quoted;
  for (const std::string &name : names)
    quoted.push_back(quote(name));
  std::cerr << "binade: warning: " << names.size() << " tensors " << what
            << ": " << joinFirst(quoted, kMax) << "\n";
}

/// Checks that all parameters and buffers have a value from the model or from
/// the file of --init. `missing` lists those that the file lacks; null without
/// a file.
static Result<void> requireValues(const Program &program,
                                  const std::vector<std::string> *missing) {
  std::vector<std::string> names;
  for (const plan::Port &port : program.getPlan().ports) {
    bool isKept =
        port.role == plan::Role::Parameter || port.role == plan::Role::Buffer;
    if (isKept && std::holds_alternative<plan::NoInit>(port.init) &&
        (!missing || std::ranges::find(*missing, port.name) != missing->end()))
      names.push_back(port.name);
  }
  if (names.empty())
    return {};
  return Error{"",
               std::to_string(names.size()) +
                   " parameters and buffers have no initial value, such as " +
                   quote(names.front())}
      .withNote("--init FILE.safetensors gives them values by their names");
}

Result<void> TrainArguments::initialize(Program &program) const {
  if (Result<void> done = program.initialize(initSeed.value_or(train.seed));
      !done)
    return done;
  if (init.empty())
    return requireValues(program, nullptr);
  Result<Safetensors> file = Safetensors::open(init);
  if (!file)
    return file.takeError();
  InitialNames matched = matchInitialNames(program, *file);
  bool isRefused =
      !initPartial && matched.hasWeights && !matched.missing.empty();
  if (isRefused && !matched.hasMatches)
    return refuseMissing(program, *file, matched);
  // Another shape is the better reason.
  Result<Restored> restored = program.restore(*file, matched.names);
  if (!restored)
    return restored.takeError();
  if (isRefused)
    return refuseMissing(program, *file, matched);
  if (Result<void> complete = requireValues(program, &restored->missing);
      !complete)
    return complete;
  std::cout << "start: " << restored->tensors << " tensors of "
            << printable(init) << "\n";
  for (const std::string &note : matched.notes)
    std::cout << "start: " << note << "\n";
  warnAbout(matched.missing, "keep their initial values, because the file has "
                             "none with their names");
  warnAbout(restored->unknown,
            "of the file are ignored, because the program has "
            "none with their names");
  return {};
}

Result<void> TrainArguments::writeProfile(Program &program) const {
  if (profile.empty())
    return {};
  Profile measured = program.getProfile();
  measured.ceilings = program.measureCeilings();
  printProfile(std::cout, measured);
  return program.writeTrace(profile, measured);
}

/// Prints which function reads the final state if it has FP8 tensors, which
/// safetensors.numpy cannot read.
static void printReaderNote(const Program &program, const std::string &out) {
  std::set<std::string_view> formats;
  for (const plan::Port &port : program.getPlan().ports) {
    DType dtype = program.getPlan().buffers[port.buffer].dtype;
    if (plan::isTrainingState(port.role) && name(dtype).starts_with("F8_"))
      formats.insert(name(dtype));
  }
  if (formats.empty())
    return;
  std::cout << printable(out) << "/final.safetensors has tensors in";
  for (const char *separator = " "; std::string_view format : formats)
    std::cout << std::exchange(separator, ", ") << format;
  std::cout << ": binade.safetensors.load reads them in Python, "
               "safetensors.numpy does not\n";
}

Result<std::int64_t> TrainArguments::findTotalSteps(Program &program) {
  if (train.epochs == 0)
    return train.steps;
  Result<Data> opened = Data::open(program, data.options);
  if (!opened)
    return opened.takeError();
  // `run` counts the steps again, and prints their number.
  if (Result<void> done = countSteps(program, *opened, train); !done)
    return done.takeError();
  return train.steps;
}

Result<int> TrainArguments::run(Program &program, const std::string &model,
                                const std::string &directory) {
  Result<Data> opened = Data::open(program, data.options);
  if (!opened)
    return opened.takeError();
  std::optional<Data> heldOut;
  if (!evalData.empty()) {
    DataOptions options = data.options;
    options.path = evalData;
    Result<Data> openedToo = Data::open(program, options);
    if (!openedToo)
      return openedToo.takeError();
    heldOut = *std::move(openedToo);
    train.evalData = &*heldOut;
  }
  train.notify = [](std::string_view text) { std::cout << text << std::endl; };
  if (train.epochs > 0)
    if (Result<void> done = countSteps(program, *opened, train); !done)
      return done.takeError();
  std::vector<Data> others;
  others.reserve(injections.size());
  train.injections.clear();
  for (const auto &[file, step] : injections) {
    // Only a warning, because the run may be resumed with more steps.
    if (std::cmp_greater(step, train.steps))
      std::cerr << "binade: warning: --inject " << printable(file) << "@"
                << step << " has no effect: training ends after step "
                << train.steps << "\n";
    DataOptions options = data.options;
    options.path = file;
    Result<Data> other = Data::open(program, options);
    if (!other)
      return other.takeError();
    others.push_back(*std::move(other));
    train.injections.push_back({&others.back(), step});
  }
  if (Result<void> done = initialize(program); !done)
    return done.takeError();
  // Fail before the first step, not after the last one.
  if (!profile.empty())
    if (Result<AtomicFile> file = AtomicFile::create(profile); !file)
      return file.takeError();

  train.files = listFiles(program, model, directory);
  printHeading(std::cout, program);
  printLedger(std::cout, program);
  printSchedules(train);
  catchSignals();
  train.interrupted = [] { return signalSeen ? 128 + signalSeen : 0; };
  train.warn = [](std::string_view text) {
    std::cerr << "binade: warning: " << text << "\n";
  };
  program.setProfiling(!profile.empty());
  Progress progress(std::cout, isatty(STDOUT_FILENO), train.steps);
  Result<TrainSummary> summary =
      binade::train(program, *opened, train, [&](const StepMetrics &metrics) {
        progress.show(metrics);
      });
  progress.finish();
  switchesPolicy = summary && summary->switchesPolicy;
  if (switchesPolicy)
    return summary->exitCode; // The caller resumes under another policy.
  if (summary) {
    printReaderNote(program, train.out);
    printEvaluations(std::cout, train, *summary, commandName);
  }
  if (summary && summary->isAlarmed && !train.alarms.policy.empty())
    std::cout << "the policy asks to resume under "
              << printable(train.alarms.policy)
              << ", which needs another bundle: 'binade ckpt convert' converts "
                 "the checkpoint for a bundle of that policy\n";
  Result<void> profiled = writeProfile(program);
  if (!summary)
    return summary.takeError();
  if (!profiled)
    return profiled.takeError();
  return summary->exitCode;
}
