//===- RunFile.h - Writer of run.json ---------------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_RUNFILE_H
#define BINADE_LIB_RUNTIME_RUNS_RUNFILE_H

#include "../Training/HeldOut.h"
#include "binade/Container/Json.h"
#include "binade/Runtime/Checkpoint.h"

namespace binade {

/// Writes a description of a run as JSON to `path`: model, policy, settings,
/// memory and formats, and the commands that trained it, each with its files
/// and machine. A resumed run appends its command to the list. Returns what was
/// written.
Result<nlohmann::ordered_json>
writeRunFile(const std::string &path, const Program &program, const Data &data,
             const HeldOut &heldOut, const TrainOptions &options,
             const Manifest &manifest);

/// Writes `described`, the result of `writeRunFile`, with the outcome of its
/// last command, if held-out samples were evaluated: the number of steps,
/// whether it stopped early, and the lowest held-out loss.
Result<void> writeOutcome(const std::string &path,
                          nlohmann::ordered_json described,
                          const TrainSummary &summary);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_RUNFILE_H
