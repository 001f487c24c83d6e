//===- RunFile.h - What a run is made of, as JSON ---------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNFILE_H
#define BINADE_LIB_RUNTIME_RUNFILE_H

#include "HeldOut.h"

namespace binade {

/// Writes model, policy, seed, memory and formats of a run to `path`, for
/// tables of runs and for people who find the directory later.
Result<void> writeRunFile(const std::string &path, const Program &program,
                          const Data &data, const HeldOut &heldOut,
                          const TrainOptions &options);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNFILE_H
