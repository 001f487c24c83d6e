//===- TrainArguments.h - Options of training -------------------*- C++ -*-===//
// Shared by `binade train`, which compiles, and `binade-run`, which does not.
//===----------------------------------------------------------------------===//

#ifndef BINADE_COMMANDLINE_TRAINARGUMENTS_H
#define BINADE_COMMANDLINE_TRAINARGUMENTS_H

#include "binade/CommandLine/ScheduleArguments.h"
#include "binade/Runtime/Settings.h"
#include "binade/Runtime/Training.h"
#include <CLI/CLI.hpp>

namespace binade {

/// The options of hyper-parameters: --lr and --set.
struct SettingArguments {
  std::optional<double> lr;
  std::vector<std::string> texts;

  void add(CLI::App &command);
  /// Checks the settings, and adds `lr` to `texts`. The value of the setting
  /// `named` may be a name; all others are numbers.
  Result<void> complete(std::string_view named = {});
  /// Returns the numeric settings, after `complete`.
  std::vector<Setting> getSettings() const;
};

/// The options of data: --data, --window, --stride, --const and --batch.
struct DataArguments {
  DataOptions options;

  CLI::Option *add(CLI::App &command);
  /// Parses the options that CLI11 stores as text.
  Result<void> complete();

private:
  std::optional<std::string> windows;
  std::vector<std::string> constants;
};

/// The options of data, evaluation and a run.
struct TrainArguments {
  TrainOptions train;
  /// The command that resumes a run, for messages.
  std::string commandName = "binade train";
  /// After `run`: whether training should continue under another policy.
  bool switchesPolicy = false;

  void add(CLI::App &command);
  /// Parses the options that CLI11 stores as text.
  Result<void> complete();
  /// Returns the number of steps of the whole run; with --epochs, it depends on
  /// the data.
  Result<std::int64_t> findTotalSteps(Program &program);
  /// Trains, reports progress on the terminal, and returns the exit code.
  /// `model` is the file of the model or bundle, `directory` the directory of
  /// its weights.
  Result<int> run(Program &program, const std::string &model,
                  const std::string &directory);

  const DataOptions &getData() const { return data.options; }
  bool hasHeldOut() const {
    return !evalData.empty() || train.evalFraction > 0;
  }

private:
  void addEvaluation(CLI::App &command);
  void addRun(CLI::App &command);
  std::map<std::string, std::string>
  listFiles(const Program &program, const std::string &model,
            const std::string &directory) const;
  Result<void> initialize(Program &program) const;
  Result<void> writeProfile(Program &program) const;

  DataArguments data;
  std::string evalData;
  std::string init, order = "shuffle", onNonFinite, record, resume, profile;
  bool initPartial = false;
  ScheduleArguments schedule;
  std::vector<std::string> injected;
  /// Files of --inject with the first step of each.
  std::vector<std::pair<std::string, std::int64_t>> injections;
  std::optional<std::uint64_t> initSeed;
};

/// Throws an error of CLI11 unless --out or --resume, and --steps or --epochs
/// is given.
void requireRun(const CLI::App &command);

} // namespace binade

#endif // BINADE_COMMANDLINE_TRAINARGUMENTS_H
