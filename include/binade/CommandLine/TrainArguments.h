//===- TrainArguments.h - what training takes and prints --------*- C++ -*-===//
// Shared by `binade train`, which compiles, and `binade-run`, which does not.
//===----------------------------------------------------------------------===//

#ifndef BINADE_COMMANDLINE_TRAINARGUMENTS_H
#define BINADE_COMMANDLINE_TRAINARGUMENTS_H

#include "binade/Runtime/Settings.h"
#include "binade/Runtime/Training.h"
#include <CLI/CLI.hpp>

namespace binade {

/// Hyper-parameters: --lr and --set.
struct SettingArguments {
  std::optional<double> lr;
  std::vector<std::string> texts;

  void add(CLI::App &command);
  /// Checks what the command line can say wrong, and writes `lr` to `texts`.
  /// The value of the setting `named` may be a name; all others are numbers.
  Result<void> complete(std::string_view named = {});
  /// The numbers that they say, after `complete`.
  std::vector<Setting> getSettings() const;
};

/// Where batches come from: --data, --window, --stride, --const and --batch.
struct DataArguments {
  DataOptions options;

  CLI::Option *add(CLI::App &command);
  /// Takes apart what the command line holds as text.
  Result<void> complete();

private:
  std::optional<std::string> windows;
  std::vector<std::string> constants;
};

/// Data, evaluation, and the options of a run.
struct TrainArguments {
  TrainOptions train;
  bool wasAlarmed = false; ///< After `run`: whether an alarm ended it.

  void add(CLI::App &command);
  /// Takes apart what the command line holds as text.
  Result<void> complete();
  /// Trains and tells the terminal about it; the exit code. `model` is the file
  /// that the program was made of, `directory` where its weights are.
  Result<int> run(Program &program, const std::string &model,
                  const std::string &directory);

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
  std::vector<std::string> schedules, injected;
  /// Files, and the steps from which on they are fed.
  std::vector<std::pair<std::string, std::int64_t>> injections;
  std::optional<std::uint64_t> initSeed;
};

/// Fails, as CLI11 does, unless the command line names a run's directory.
void requireRun(const CLI::App &command);

} // namespace binade

#endif // BINADE_COMMANDLINE_TRAINARGUMENTS_H
