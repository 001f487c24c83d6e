//===- RunFile.h - Writer of run.json ---------------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_RUNFILE_H
#define BINADE_LIB_RUNTIME_RUNS_RUNFILE_H

#include "../Training/HeldOut.h"
#include "binade/Runtime/Checkpoint.h"

namespace binade {

/// Writes a description of a run as JSON to `path`: model, policy, settings,
/// memory and formats, and the commands that trained it, each with its files
/// and machine. A resumed run appends its command to the list.
Result<void> writeRunFile(const std::string &path, const Program &program,
                          const Data &data, const HeldOut &heldOut,
                          const TrainOptions &options,
                          const Manifest &manifest);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_RUNFILE_H
