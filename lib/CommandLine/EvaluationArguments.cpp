//===- EvaluationArguments.cpp - Early stopping, the best state -----------===//

#include "binade/CommandLine/EvaluationArguments.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Container/Numbers.h"
#include "binade/Container/Printable.h"
#include <ostream>

using namespace binade;

void binade::addEvaluationGoals(CLI::App &command, TrainOptions &options) {
  command
      .add_option("--patience", options.patience,
                  "Stop training, with exit code 0, after N consecutive "
                  "evaluations without an improvement of eval_loss; implies "
                  "--keep-best; 0 (default) never stops early")
      ->type_name("N")
      ->check(integer<std::int64_t>());
  command
      .add_option("--min-delta", options.minDelta,
                  "With --patience: count eval_loss as improved only if it is "
                  "more than D below the last improvement")
      ->type_name("D")
      ->check(number({.min = 0}))
      ->capture_default_str();
  command.add_flag("--keep-best", options.keepBest,
                   "Copy the state with the lowest eval_loss to "
                   "RUN/best.safetensors, and keep its checkpoint in addition "
                   "to those of --keep; implied by --patience");
}

Result<void> binade::completeEvaluationGoals(TrainOptions &options,
                                             bool hasHeldOut) {
  if (options.minDelta > 0 && options.patience == 0)
    return usageError("--min-delta needs --patience");
  const char *name = options.patience > 0 ? "--patience"
                     : options.keepBest   ? "--keep-best"
                                          : nullptr;
  if (name && !hasHeldOut)
    return usageError(std::string(name) +
                      " needs --eval-data or --eval-fraction");
  if (options.patience > 0 && options.evalEvery == 0)
    return usageError("--patience needs --eval-every");
  options.keepBest |= options.patience > 0;
  return {};
}

static std::string format(double number) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.4f", number);
  return text;
}

/// Says why --patience has ended a run.
static std::string describeStall(const TrainOptions &options,
                                 const EvaluationHistory &seen) {
  std::string count = std::to_string(seen.stalled) +
                      (seen.stalled == 1 ? " evaluation" : " evaluations");
  if (!seen.improved)
    return "eval_loss was not finite in " + count;
  std::string text = "eval_loss was not ";
  if (options.minDelta > 0)
    text += "more than " + formatNumber(options.minDelta) + " ";
  return text + "below " + format(seen.improved->value) + ", that of step " +
         std::to_string(seen.improved->step) + ", in " + count;
}

void binade::printEvaluations(std::ostream &out, const TrainOptions &options,
                              const TrainSummary &summary,
                              std::string_view command) {
  if (summary.evalLoss) {
    out << "eval_loss " << format(*summary.evalLoss);
    for (const EvaluationMetric &metric : summary.evalMetrics)
      out << ", " << metric.name << " " << format(metric.value);
    out << " after step " << summary.evalStep << "\n";
  }
  if (const auto &lowest = summary.evaluations.lowest;
      options.keepBest && lowest)
    out << "best: eval_loss " << format(lowest->value) << " after step "
        << lowest->step << ", in " << printable(options.out)
        << "/best.safetensors\n";
  if (summary.isStalled)
    out << "stopped early after step " << summary.steps << ": "
        << describeStall(options, summary.evaluations) << "; '" << command
        << " --resume " << printable(options.out) << " --patience "
        << summary.evaluations.stalled + 1 << "' continues the run\n";
  else if (summary.steps < options.steps)
    out << "stopped after step " << summary.steps << "; '" << command
        << " --resume " << printable(options.out) << "' resumes the run\n";
}
