//===- NumericGuard.cpp - Steps whose numbers are not finite --------------===//

#include "NumericGuard.h"
#include "OverflowText.h"
#include "binade/Runtime/NonFiniteWeights.h"
#include <cmath>

using namespace binade;
using namespace binade::plan;

std::optional<OnNonFinite> binade::parseOnNonFinite(std::string_view text) {
  if (text == "stop")
    return OnNonFinite::Stop;
  if (text == "skip")
    return OnNonFinite::Skip;
  if (text == "continue")
    return OnNonFinite::Continue;
  if (text == "shrink")
    return OnNonFinite::Shrink;
  return std::nullopt;
}

NumericGuard::NumericGuard(Program &program, const TrainOptions &options)
    : program(program), options(options),
      onNonFinite(options.onNonFinite.value_or(
          hasScaler() ? OnNonFinite::Skip : OnNonFinite::Stop)),
      kept(program, {Role::Buffer, Role::Rng, Role::Scaler}) {}

Result<void> NumericGuard::check() const {
  bool skips = program.getPlan().skipsNonFinite;
  constexpr const char *kWhere = "--on-nonfinite";
  if (!readScalar(program, Role::Metric, "loss"))
    return Error{kPlanTensor.data(),
                 "the program has no metric 'loss': it is no training step"};
  bool lowersScale =
      onNonFinite == OnNonFinite::Skip || onNonFinite == OnNonFinite::Shrink;
  if (hasScaler() && !lowersScale)
    return Error{kWhere,
                 "the program scales its loss: steps whose gradients overflow "
                 "are part of finding the scale and are skipped",
                 ExitCode::Usage};
  bool applies = onNonFinite == OnNonFinite::Continue ||
                 onNonFinite == OnNonFinite::Shrink;
  if (skips && applies)
    return Error{kWhere,
                 "the program was compiled to skip steps that are not finite; "
                 "'continue' and 'shrink' need the model itself",
                 ExitCode::Usage};
  if (!skips && !applies)
    return Error{kWhere,
                 "the program was compiled to apply steps that are not finite; "
                 "use --on-nonfinite continue or shrink",
                 ExitCode::Usage};
  return {};
}

void NumericGuard::keep(std::int64_t skippedInRow) {
  badLoss.reset();
  bool isLastSkip = onNonFinite == OnNonFinite::Skip &&
                    options.maxSkipped > 0 &&
                    skippedInRow + 1 >= options.maxSkipped;
  if (onNonFinite == OnNonFinite::Stop || isLastSkip)
    kept.capture();
}

void NumericGuard::observeLoss(std::int64_t batch, double loss,
                               const BatchFeed &feed) {
  if (!badLoss)
    badLoss = findNonFiniteLoss(batch, loss, feed);
}

/// A loss scale is found by skipping steps whose gradients overflow. No scale
/// changes the loss itself: where only that is not finite, a run with a scale
/// stops as one without does, unless its user says otherwise.
std::optional<Error> NumericGuard::judge(const StepMetrics &metrics,
                                         std::int64_t skippedInRow,
                                         const BatchFeed &feed,
                                         const std::string &finalPath) {
  bool stopsAtLoss = onNonFinite == OnNonFinite::Stop || !options.onNonFinite;
  badLosses += badLoss.has_value();
  if ((onNonFinite == OnNonFinite::Stop && metrics.skipped) ||
      (stopsAtLoss && badLoss && !metrics.skipped))
    return stop(metrics, finalPath);
  if (options.maxSkipped > 0 && skippedInRow >= options.maxSkipped)
    return stopSkipping(metrics, skippedInRow, feed, finalPath);
  warnOfStep(metrics);
  return std::nullopt;
}

/// Warns of the first step in a row whose loss is not finite, or which was
/// applied with such gradients. Where gradients alone are not finite, skipped
/// steps are counted instead.
void NumericGuard::warnOfStep(const StepMetrics &metrics) {
  bool isApplied =
      !metrics.skipped && metrics.gradNorm && !std::isfinite(*metrics.gradNorm);
  bool isNonFinite = badLoss || isApplied;
  if (isNonFinite && !wasNonFinite && options.warn) {
    options.warn(
        "step " + std::to_string(metrics.step) + ": " +
        (badLoss ? badLoss->describe() : "the gradients are not finite") +
        (metrics.skipped ? "; the step was skipped"
                         : "; the step was applied"));
    if (badLoss)
      options.warn(badLoss->describeSamples());
    if (isApplied)
      checkWeights(metrics.step);
  }
  wasNonFinite = isNonFinite;
}

bool NumericGuard::checkWeights(std::int64_t step) {
  std::vector<NonFiniteTensor> found = findNonFiniteWeights(program);
  if (!found.empty() && !std::exchange(hasWarnedWeights, true) && options.warn)
    options.warn("step " + std::to_string(step) + ": " +
                 describe(found, "parameter"));
  return found.empty();
}

bool NumericGuard::conclude(std::int64_t step, const std::string &finalPath) {
  if (badLosses > 1 && options.warn)
    options.warn("the loss was not finite in " + std::to_string(badLosses) +
                 " steps");
  std::vector<NonFiniteTensor> found = findNonFiniteWeights(program);
  if (!found.empty() && options.warn)
    options.warn(printable(finalPath) + ", after step " + std::to_string(step) +
                 ": " + describe(found, "parameter"));
  return found.empty();
}

/// Where gradients are not finite the update kept what it guards. A loss can be
/// infinite although they are finite: then the update was sound.
Error NumericGuard::stop(const StepMetrics &metrics,
                         const std::string &finalPath) {
  if (metrics.skipped)
    kept.restore();
  if (Result<void> saved = program.save(finalPath); !saved)
    return saved.takeError();
  std::string loss =
      badLoss ? badLoss->describe() : "the loss is " + formatLoss(metrics.loss);
  Error error{"step " + std::to_string(metrics.step),
              metrics.skipped ? "the gradients are not finite (" + loss + ")"
                              : loss,
              ExitCode::NumericGuard};
  if (badLoss)
    error = std::move(error).withNote(badLoss->describeSamples());
  error = std::move(error).withNote(
      "the state " + std::string(metrics.skipped ? "before" : "after") +
      " this step is in " + printable(finalPath));
  if (metrics.skipped)
    return std::move(error).withNote(
        "a smaller --lr or a --clip may help; --on-nonfinite skip leaves such "
        "steps out");
  return std::move(error).withNote(
      "its gradients are finite: --on-nonfinite skip warns of such steps and "
      "goes on; 'binade why-nan' finds the op");
}

/// The step is computed again, up to what went wrong.
Error NumericGuard::stopSkipping(const StepMetrics &metrics,
                                 std::int64_t skippedInRow,
                                 const BatchFeed &feed,
                                 const std::string &finalPath) {
  char scale[64] = "";
  if (metrics.lossScale)
    std::snprintf(scale, sizeof(scale), ", with a loss scale of %g at last",
                  *metrics.lossScale);
  Error error{"step " + std::to_string(metrics.step),
              std::to_string(skippedInRow) +
                  " steps in a row were skipped, for their gradients are not "
                  "finite" +
                  scale,
              ExitCode::NumericGuard};
  kept.restore();
  if (Result<void> filled = feed.getSource().fill(feed.getSamples()); !filled)
    return filled.takeError();
  std::optional<Overflow> overflow = program.findOverflow();
  kept.restore();
  if (Result<void> saved = program.save(finalPath); !saved)
    return saved.takeError();
  if (overflow)
    error = std::move(error)
                .withNote(describe(*overflow))
                .withNote(advise(*overflow));
  return std::move(error)
      .withNote("the state before this step is in " + printable(finalPath))
      .withNote("--max-skipped says after how many steps training stops");
}

void NumericGuard::warnInfeasible(const StepMetrics &metrics) {
  if (wasInfeasible ||
      readScalar(program, Role::Metric, "no_feasible_scale").value_or(0) == 0)
    return;
  wasInfeasible = true;
  if (options.warn)
    options.warn("step " + std::to_string(metrics.step) + ": " +
                 describeInfeasible(program, metrics.lossScale.value_or(1)));
}
