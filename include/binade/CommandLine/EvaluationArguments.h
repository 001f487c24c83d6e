//===- EvaluationArguments.h - Early stopping, the best state ---*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_EVALUATIONARGUMENTS_H
#define BINADE_COMMANDLINE_EVALUATIONARGUMENTS_H

#include "binade/Runtime/Training.h"
#include <CLI/CLI.hpp>
#include <iosfwd>

namespace binade {

/// Adds --patience, --min-delta and --keep-best.
void addEvaluationGoals(CLI::App &command, TrainOptions &options);

/// Sets what these options imply. Returns an error if they need others;
/// `hasHeldOut` says whether the run has held-out samples.
Result<void> completeEvaluationGoals(TrainOptions &options, bool hasHeldOut);

/// Prints the last held-out loss, the best state, and why the run ended before
/// its last step, if it did. `command` resumes a run.
void printEvaluations(std::ostream &out, const TrainOptions &options,
                      const TrainSummary &summary, std::string_view command);

} // namespace binade

#endif // BINADE_COMMANDLINE_EVALUATIONARGUMENTS_H
