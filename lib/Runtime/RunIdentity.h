//===- RunIdentity.h - What makes a run the same run ------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNIDENTITY_H
#define BINADE_LIB_RUNTIME_RUNIDENTITY_H

#include "HeldOut.h"
#include "binade/Runtime/Checkpoint.h"

namespace binade {

/// A manifest of step 0 that says what a run is and where it runs.
Manifest identifyRun(const Program &program, const Data &data,
                     const HeldOut &heldOut, const TrainOptions &options);

/// The part of that which says what is computed.
std::map<std::string, std::string> identifyProgram(const Plan &plan);

/// The hash of what a plan computes: of its records and of the types of its
/// memory, but not of where that lies, what it starts from, how many threads
/// there are, or what the target and the machine's library need besides.
std::string hashComputation(Plan plan);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNIDENTITY_H
