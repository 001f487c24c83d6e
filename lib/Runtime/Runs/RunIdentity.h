//===- RunIdentity.h - What makes a run the same run ------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_RUNIDENTITY_H
#define BINADE_LIB_RUNTIME_RUNS_RUNIDENTITY_H

#include "../Training/HeldOut.h"
#include "binade/Runtime/Checkpoint.h"

namespace binade {

/// A manifest of step 0 that says what a run is and where it runs.
Manifest identifyRun(const Program &program, const Data &data,
                     const HeldOut &heldOut, const TrainOptions &options);

/// The part of that which says what is computed.
std::map<std::string, std::string> identifyProgram(const Plan &plan);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_RUNIDENTITY_H
