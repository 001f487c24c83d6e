//===- RunFile.h - What a run is made of, as JSON ---------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_RUNFILE_H
#define BINADE_LIB_RUNTIME_RUNS_RUNFILE_H

#include "../Training/HeldOut.h"
#include "binade/Runtime/Checkpoint.h"

namespace binade {

/// Writes to `path` what the run of `manifest` is: model, policy, settings,
/// memory and formats, and a list of the commands that it was trained by, each
/// with its files and machine. A run that is resumed adds to the list. For
/// tables of runs, and for people who find the directory later.
Result<void> writeRunFile(const std::string &path, const Program &program,
                          const Data &data, const HeldOut &heldOut,
                          const TrainOptions &options,
                          const Manifest &manifest);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_RUNFILE_H
