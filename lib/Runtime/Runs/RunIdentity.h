//===- RunIdentity.h - Properties that identify a run -----------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_RUNIDENTITY_H
#define BINADE_LIB_RUNTIME_RUNS_RUNIDENTITY_H

#include "../Training/HeldOut.h"
#include "binade/Runtime/Checkpoint.h"

namespace binade {

/// Separates the expression of a schedule from the number of steps that it
/// uses, in the properties of a run.
inline constexpr std::string_view kWithSteps = " with steps = ";

/// The number of held-out samples that the run evaluates. It follows from the
/// loss at the start of the run, so that a later command takes it over.
inline constexpr std::string_view kEvaluated = "evaluated samples";

/// Returns a manifest of step 0 with the properties of the run and the machine.
Manifest identifyRun(const Program &program, const Data &data,
                     const HeldOut &heldOut, const TrainOptions &options);

/// Returns the properties of the run that depend on the plan.
std::map<std::string, std::string> identifyProgram(const Plan &plan);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_RUNIDENTITY_H
