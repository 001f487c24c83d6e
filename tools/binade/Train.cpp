//===- Train.cpp - binade train -------------------------------------------===//

#include "Commands.h"
#include "Model.h"
#include "Report.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Runtime/Progress.h"
#include "llvm/Support/FormatVariadic.h"
#include <csignal>
#include <filesystem>
#include <iostream>
#include <unistd.h>

using ::binade::Data;
using ::binade::DataOptions;
using ::binade::ExitCode;
using ::binade::integer;
using ::binade::number;
using ::binade::oneOf;
using ::binade::OnNonFinite;
using ::binade::Order;
using ::binade::Program;
using ::binade::Result;
using ::binade::Safetensors;

/// The signal that asks for an end; 0 for none.
static volatile std::sig_atomic_t signalSeen = 0;

/// The first SIGINT or SIGTERM ends training after a step, the second at once.
/// A reader of the output that goes away ends nothing, and a file that may not
/// grow is an error of writing.
static void catchSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { signalSeen = number; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

namespace {
struct TrainCommand {
  ImportArguments import;
  StepArguments step;
  OutputArguments output;
  DataOptions data;
  std::string evalData;
  ::binade::TrainOptions train;
  std::optional<std::string> windows;
  std::string init, order = "shuffle", onNonFinite, record, resume;
  std::vector<std::string> constants, schedules;
  std::optional<std::uint64_t> initSeed;
  bool profile = false;

  int run() {
    Model model(import.model, output);
    auto fail = [&](const ::binade::Error &error) {
      return model.getDiagnostics().fail(error);
    };
    if (Result<void> complete = this->complete(); !complete)
      return fail(complete.error());
    ::binade::LoadOptions load;
    load.threads = step.options.threads;
    load.notify = [](std::string_view text) {
      std::cerr << "binade: " << text << "\n";
    };
    auto loaded = model.load(import, step, load);
    if (auto *code = std::get_if<int>(&loaded))
      return *code;
    auto &program = std::get<Program>(loaded);
    Result<Data> opened = Data::open(program, data);
    if (!opened)
      return fail(opened.error());
    std::optional<Data> heldOut;
    if (!evalData.empty()) {
      DataOptions options = data;
      options.path = evalData;
      Result<Data> openedToo = Data::open(program, options);
      if (!openedToo)
        return fail(openedToo.error());
      heldOut = *std::move(openedToo);
      train.evalData = &*heldOut;
    }
    if (Result<void> done = initialize(program); !done)
      return fail(done.error());

    train.files = listFiles(program, model.getDirectory());
    printHeading(std::cout, program);
    printLedger(std::cout, program);
    catchSignals();
    train.interrupted = [] { return signalSeen ? 128 + signalSeen : 0; };
    train.warn = [](std::string_view text) {
      std::cerr << "binade: warning: " << text << "\n";
    };
    train.notify = [](std::string_view text) {
      std::cout << text << std::endl;
    };
    program.setProfiling(profile);
    ::binade::Progress progress(std::cout, isatty(STDOUT_FILENO), train.steps);
    Result<::binade::TrainSummary> summary = ::binade::train(
        program, *opened, train,
        [&](const ::binade::StepMetrics &metrics) { progress.show(metrics); });
    progress.finish();
    if (summary && summary->evalLoss)
      std::cout << llvm::formatv("eval_loss {0:f4} after step {1}\n",
                                 *summary->evalLoss, summary->evalStep)
                       .str();
    if (summary && summary->steps < train.steps)
      std::cout << "stopped after step " << summary->steps
                << "; the same command with --resume "
                << ::binade::printable(train.out)
                << " instead of --out goes on\n";
    if (profile)
      printProfile(std::cout, program);
    return summary ? summary->exitCode : fail(summary.error());
  }

  /// Takes apart what the command line holds as text.
  Result<void> complete() {
    train.resume = train.out.empty();
    if (train.resume)
      train.out = resume;
    if (train.out.empty())
      return usageError("--out names no directory");
    if (train.resume && !record.empty())
      return usageError("--record cannot be resumed: what it counted of the "
                        "steps before is not in a checkpoint");
    if (windows) {
      Result<std::vector<::binade::Window>> parsed =
          ::binade::parseWindows(*windows);
      if (!parsed)
        return parsed.takeError();
      data.windows = *std::move(parsed);
    }
    for (llvm::StringRef text : constants) {
      auto [name, file] = text.split('=');
      if (name.empty() || file.empty())
        return usageError("--const expects NAME=FILE, got " +
                          ::binade::quote(text.str()));
      data.constants.emplace_back(name, file);
    }
    if (train.evalEvery > 0 && evalData.empty() && train.evalFraction == 0)
      return usageError("--eval-every needs --eval-data or --eval-fraction");
    for (const std::string &text : schedules) {
      Result<::binade::Schedule> schedule = ::binade::Schedule::parse(text);
      if (!schedule)
        return schedule.takeError();
      train.schedules.push_back(*std::move(schedule));
    }
    train.order = order == "shuffle" ? Order::Shuffle : Order::Sequential;
    if (!onNonFinite.empty())
      train.onNonFinite = ::binade::parseOnNonFinite(onNonFinite);
    step.options.skipNonFinite = train.onNonFinite != OnNonFinite::Continue;
    step.options.keepGradients = train.saveGradients > 0;
    if (!record.empty()) {
      llvm::StringRef file = record;
      if (!file.consume_front("ranges=") || file.empty())
        return usageError("--record expects ranges=FILE, got " +
                          ::binade::quote(record));
      train.recordRanges = file.str();
      step.options.statistics = mlir::binade::kRangeStatistics.str();
    }
    return {};
  }

  /// All that the run is made of; weights are sought in `directory`.
  std::map<std::string, std::string> listFiles(const Program &program,
                                               const std::string &directory) {
    std::map<std::string, std::string> files = {{"model", import.model},
                                                {"data", data.path}};
    if (!evalData.empty())
      files["eval_data"] = evalData;
    if (!init.empty())
      files["init"] = init;
    for (const auto &[name, file] : data.constants)
      files["const " + name] = file;
    for (const ::binade::plan::Port &port : program.getPlan().ports)
      if (auto *weights = std::get_if<::binade::plan::ExternalInit>(&port.init))
        files["weights " + weights->file] =
            (std::filesystem::path(directory) / weights->file).string();
    return files;
  }

  static void warnOf(const std::vector<std::string> &names,
                     std::string_view what) {
    constexpr std::size_t kMost = 20;
    if (names.empty())
      return;
    std::cerr << "binade: warning: " << names.size() << " tensors " << what
              << ": ";
    for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
      std::cerr << (i ? ", " : "") << ::binade::quote(names[i]);
    if (names.size() > kMost)
      std::cerr << " and " << names.size() - kMost << " more";
    std::cerr << "\n";
  }

  Result<void> initialize(Program &program) {
    if (Result<void> done = program.initialize(initSeed.value_or(train.seed));
        !done || init.empty())
      return done;
    Result<Safetensors> file = Safetensors::open(init);
    if (!file)
      return file.takeError();
    Result<::binade::Restored> restored = program.restore(*file);
    if (!restored)
      return restored.takeError();
    std::cout << "start: " << restored->tensors << " tensors of "
              << ::binade::printable(init) << "\n";
    warnOf(restored->missing, "keep their initial values, for the file has "
                              "none with their names");
    warnOf(restored->unknown, "of the file are left out, for the program has "
                              "none with their names");
    return {};
  }
};
} // namespace

static void addDataOptions(CLI::App &command, TrainCommand &self) {
  command
      .add_option("--data", self.data.path,
                  "Data file: one tensor per batch input, or streams")
      ->required()
      ->type_name("FILE.safetensors");
  command
      .add_option("--window", self.windows,
                  "Inputs cut from streams: "
                  "'ids=tokens[0:256],labels=tokens[1:257]'")
      ->type_name("SPEC");
  command
      .add_option("--stride", self.data.stride,
                  "Elements between the starts of two windows; 0 for the "
                  "length of the longest")
      ->check(integer<std::int64_t>());
  command
      .add_option("--const", self.constants,
                  "Input that is the same in every step")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  command
      .add_option("--batch", self.data.batch,
                  "Samples per step; has to be the model's")
      ->check(integer<std::int64_t>(1));
  command.add_option("--order", self.order, "Order of samples in an epoch")
      ->check(oneOf({"shuffle", "sequential"}))
      ->capture_default_str();
}

static void addEvaluationOptions(CLI::App &command, TrainCommand &self) {
  auto *data =
      command
          .add_option("--eval-data", self.evalData,
                      "Held-out data like --data: the loss over it, without "
                      "dropout and with running statistics, is eval_loss")
          ->type_name("FILE.safetensors");
  command
      .add_option("--eval-fraction", self.train.evalFraction,
                  "Instead of --eval-data: hold out this part of --data, "
                  "its last samples")
      ->type_name("F")
      ->check(number({.min = 0, .below = 1}))
      ->excludes(data);
  command
      .add_option("--eval-every", self.train.evalEvery,
                  "Steps from one evaluation to the next; 0 for none but that "
                  "after the last")
      ->type_name("N")
      ->check(integer<std::int64_t>());
}

static void addRunOptions(CLI::App &command, TrainCommand &self) {
  command.add_option("--steps", self.train.steps, "Steps to train")
      ->required()
      ->check(integer<std::int64_t>());
  auto *out =
      command
          .add_option("--out", self.train.out,
                      "Directory for metrics, checkpoints and the final state")
          ->type_name("RUN");
  command
      .add_option("--resume", self.resume,
                  "Instead of --out: go on after the newest checkpoint of this "
                  "run; without one, start it")
      ->type_name("RUN")
      ->excludes(out);
  command
      .add_option("--save-every", self.train.saveEvery,
                  "Steps from one checkpoint to the next; 0 for none but that "
                  "of a run which is stopped")
      ->type_name("N")
      ->check(integer<std::int64_t>());
  command.add_option("--keep", self.train.keep, "Checkpoints that are left")
      ->type_name("K")
      ->check(integer<std::int64_t>(1))
      ->capture_default_str();
  command
      .add_option("--max-seconds", self.train.maxSeconds,
                  "Stop training, as a signal does, when these have passed")
      ->type_name("S")
      ->check(number({.min = 0}));
  command
      .add_option("--schedule", self.schedules,
                  "Value of a setting for each step: 'lr=base * "
                  "warmup(step, 100) * cosine(step - 100, steps - 100)', or "
                  "lr=@FILE")
      ->type_name("NAME=EXPR")
      ->allow_extra_args(false);
  command
      .add_option("--seed", self.train.seed,
                  "Of random initial values, dropout and the samples' order")
      ->check(integer<std::uint64_t>())
      ->capture_default_str();
  command
      .add_option("--init-seed", self.initSeed,
                  "Of random initial values and dropout, instead of --seed")
      ->check(integer<std::uint64_t>());
  command
      .add_option("--init", self.init,
                  "Start from the tensors of this file with known names, as "
                  "final.safetensors has them")
      ->type_name("FILE.safetensors");
  command
      .add_option("--save-grads", self.train.saveGradients,
                  "Write the gradients of the first K steps")
      ->type_name("K")
      ->check(integer<std::int64_t>());
  command
      .add_option("--record", self.record,
                  "Write what the values of all steps were like, for --ranges")
      ->type_name("ranges=FILE.json");
  command
      .add_option("--on-nonfinite", self.onNonFinite,
                  "What to do about gradients that are not finite; if not "
                  "given stop, or skip with loss scaling")
      ->check(oneOf({"stop", "skip", "continue"}));
  command
      .add_option("--max-skipped", self.train.maxSkipped,
                  "Skipped steps in a row after which training stops; 0 for "
                  "never")
      ->type_name("N")
      ->check(integer<std::int64_t>())
      ->capture_default_str();
  command.add_flag("--profile", self.profile,
                   "Measure every record and print where time went");
}

void addTrain(CLI::App &app, Run &run) {
  CLI::App *command =
      ::binade::addCommand(app, "train", "Train a model, or a compiled step");
  command->footer(
      "Examples:\n"
      "  binade train model.onnx --data train.safetensors --policy bf16-amp "
      "\\\n"
      "      --optimizer adamw --lr 1e-3 --set weight_decay=0.01 --steps 1000 "
      "--out run\n"
      "  binade train step.bnd --data train.safetensors --steps 100 --out run "
      "\\\n"
      "      --init run/final.safetensors --lr 3e-4\n"
      "  binade train step.bnd --data train.safetensors --steps 100 "
      "--save-every 20 \\\n"
      "      --resume survivor");
  auto self = std::make_shared<TrainCommand>();
  self->import.add(*command, "ONNX file, or a bundle of 'binade compile'");
  self->step.add(*command);
  self->output.add(*command);
  addDataOptions(*command, *self);
  addEvaluationOptions(*command, *self);
  addRunOptions(*command, *self);
  command->callback([&run, self, command] {
    if (command->count("--out") + command->count("--resume") == 0)
      throw CLI::RequiredError("--out");
    run = [self] { return self->run(); };
  });
}
