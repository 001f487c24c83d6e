//===- ResumeCommand.h - Resuming a run by its directory --------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_RESUMECOMMAND_H
#define BINADE_COMMANDLINE_RESUMECOMMAND_H

#include "binade/Container/Error.h"
#include <CLI/CLI.hpp>

namespace binade {

/// The arguments of the last command that trained a run, and the directory that
/// its paths are relative to.
struct RecordedCommand {
  std::vector<std::string> words;
  std::string directory;
};

/// Returns the directory of `path` if that is the run.json or run.yaml of a
/// run, and otherwise `path`.
std::string findRunDirectory(const std::string &path);

/// Reads the last command that `run`/run.json lists. An error unless it begins
/// with `prefix`, which is left out.
Result<RecordedCommand>
readRecordedCommand(const std::string &run,
                    const std::vector<std::string> &prefix);

/// If `words` have --resume RUN, but no model, replaces this process by one
/// that runs the last command that RUN/run.json lists, with --resume RUN, in
/// that command's directory. `words` are the arguments of `command`, which
/// `prefix` begins (`binade train`, `binade-run`); their options are added to
/// the recorded ones or replace them. Options that concern a single command,
/// such as --stop-after, are not taken over. Returns without an error if the
/// arguments are complete, or have errors that CLI11 reports.
Result<void> resumeRecorded(const CLI::App &command,
                            const std::vector<std::string> &prefix,
                            const std::vector<std::string> &words);

} // namespace binade

#endif // BINADE_COMMANDLINE_RESUMECOMMAND_H
