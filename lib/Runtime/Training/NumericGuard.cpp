//===- NumericGuard.cpp - Handling of non-finite steps --------------------===//

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
                 "the program has no metric 'loss': it is not a training step"};
  bool lowersScale =
      onNonFinite == OnNonFinite::Skip || onNonFinite == OnNonFinite::Shrink;
  if (hasScaler() && !lowersScale)
    return Error{kWhere,
                 "the program has a dynamic loss scale, which needs steps that "
                 "overflow to be skipped; expected skip",
                 ExitCode::Usage};
  bool applies = onNonFinite == OnNonFinite::Continue ||
                 onNonFinite == OnNonFinite::Shrink;
  if (skips && applies)
    return Error{kWhere,
                 "the program was compiled to skip steps that are not finite; "
                 "for 'continue' or 'shrink' train the model instead of the "
                 "bundle",
                 ExitCode::Usage};
  if (!skips && onNonFinite == OnNonFinite::Skip)
    return Error{kWhere,
                 "the program was compiled to apply steps that are not finite; "
                 "use --on-nonfinite stop, continue or shrink",
                 ExitCode::Usage};
  return {};
}

void NumericGuard::keep(std::int64_t skippedInRow) {
  badLoss.reset();
  bool isLastSkip = onNonFinite == OnNonFinite::Skip &&
                    options.maxSkipped > 0 &&
                    skippedInRow + 1 >= options.maxSkipped;
  bool mayStop =
      onNonFinite == OnNonFinite::Stop && program.getPlan().skipsNonFinite;
  if (mayStop || isLastSkip)
    kept.capture();
}

void NumericGuard::observeLoss(std::int64_t batch, double loss,
                               const BatchFeed &feed) {
  if (!badLoss)
    badLoss = findNonFiniteLoss(batch, loss, feed);
}

/// Whether the step was applied with non-finite gradients.
static bool appliedNonFinite(const StepMetrics &metrics) {
  return !metrics.skipped && metrics.gradNorm &&
         !std::isfinite(*metrics.gradNorm);
}

/// A loss scaler adapts its scale by skipping steps whose gradients overflow.
/// The scale does not affect the unscaled loss. So if only the loss is not
/// finite, a run with a loss scaler stops, too, unless `onNonFinite` is set.
std::optional<Error> NumericGuard::judge(const StepMetrics &metrics,
                                         std::int64_t skippedInRow,
                                         const BatchFeed &feed,
                                         const std::string &finalPath) {
  bool stopsAtLoss = onNonFinite == OnNonFinite::Stop || !options.onNonFinite;
  badLosses += badLoss.has_value();
  if (onNonFinite == OnNonFinite::Stop && appliedNonFinite(metrics))
    return stopApplied(metrics);
  if ((onNonFinite == OnNonFinite::Stop && metrics.skipped) ||
      (stopsAtLoss && badLoss && !metrics.skipped))
    return stop(metrics, finalPath);
  if (options.maxSkipped > 0 && skippedInRow >= options.maxSkipped)
    return stopSkipping(metrics, skippedInRow, feed, finalPath);
  observeApplied(metrics);
  warnOfStep(metrics);
  return std::nullopt;
}

/// Warns about the first of consecutive steps whose loss is not finite, or that
/// were applied with non-finite gradients. Skipped steps with a finite loss are
/// only counted.
void NumericGuard::warnOfStep(const StepMetrics &metrics) {
  bool isApplied = appliedNonFinite(metrics);
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

std::string NumericGuard::describeLoss(const StepMetrics &metrics) const {
  return badLoss ? badLoss->describe()
                 : "the loss is " + formatLoss(metrics.loss);
}

/// A step that updates each parameter as soon as its gradient is complete
/// cannot be undone.
Error NumericGuard::stopApplied(const StepMetrics &metrics) {
  Error error{"step " + std::to_string(metrics.step),
              "the gradients are not finite (" + describeLoss(metrics) + ")",
              ExitCode::NumericGuard};
  if (badLoss)
    error = std::move(error).withNote(badLoss->describeSamples());
  error = std::move(error).withNote(
      "the step updated parameters before all gradients were known, so that "
      "its state is not saved; --resume continues from the last checkpoint of "
      "--save-every");
  if (std::optional<std::string> diverged = explainDivergence())
    error = std::move(error).withNote(*diverged);
  return std::move(error).withNote(
      "without --release-gradients, training stops with the state before such "
      "a step");
}

/// If the gradients are not finite, the update was skipped, and the state
/// before the step is restored. If only the loss is not finite, the update was
/// valid and is kept.
Error NumericGuard::stop(const StepMetrics &metrics,
                         const std::string &finalPath) {
  if (metrics.skipped)
    kept.restore();
  if (Result<void> saved = program.save(finalPath); !saved)
    return saved.takeError();
  std::string loss = describeLoss(metrics);
  Error error{"step " + std::to_string(metrics.step),
              metrics.skipped ? "the gradients are not finite (" + loss + ")"
                              : loss,
              ExitCode::NumericGuard};
  if (badLoss)
    error = std::move(error).withNote(badLoss->describeSamples());
  error = std::move(error).withNote(
      "the state " + std::string(metrics.skipped ? "before" : "after") +
      " this step is in " + printable(finalPath));
  std::optional<std::string> diverged = explainDivergence();
  if (diverged)
    error = std::move(error).withNote(*diverged);
  else if (metrics.skipped)
    error =
        std::move(error).withNote("a smaller --lr, a --warmup or a --clip may "
                                  "help");
  if (metrics.skipped)
    return std::move(error).withNote("--on-nonfinite skip skips such steps");
  const char *warns = program.getPlan().skipsNonFinite ? "skip" : "continue";
  return std::move(error).withNote(
      "its gradients are finite: --on-nonfinite " + std::string(warns) +
      " warns about such steps and continues; 'binade why-nan' finds the op");
}

void NumericGuard::observeApplied(const StepMetrics &metrics) {
  if (metrics.skipped || !std::isfinite(metrics.loss))
    return;
  last = {metrics.step, metrics.loss};
  if (!lowest || metrics.loss < lowest->loss)
    lowest = last;
}

/// Says that the loss rose before the non-finite step, so that the updates are
/// the likely cause, not the formats.
std::optional<std::string> NumericGuard::explainDivergence() const {
  constexpr double kRise = 2;
  if (!lowest || last->loss <= std::max(lowest->loss, 0.0) * kRise)
    return std::nullopt;
  auto format = [](const Applied &applied) {
    return formatLoss(applied.loss) + " at step " +
           std::to_string(applied.step);
  };
  return "the training diverged before: the loss rose from " + format(*lowest) +
         " to " + format(*last) +
         "; a smaller --lr, a --warmup or a --clip may help";
}

/// Executes the step again, up to the first non-finite value, for the message.
Error NumericGuard::stopSkipping(const StepMetrics &metrics,
                                 std::int64_t skippedInRow,
                                 const BatchFeed &feed,
                                 const std::string &finalPath) {
  char scale[64] = "";
  if (metrics.lossScale)
    std::snprintf(scale, sizeof(scale), "; the last one had a loss scale of %g",
                  *metrics.lossScale);
  Error error{"step " + std::to_string(metrics.step),
              std::to_string(skippedInRow) +
                  " steps in a row were skipped because their gradients are "
                  "not finite" +
                  scale,
              ExitCode::NumericGuard};
  kept.restore();
  if (Result<void> filled = feed.getSource().fill(feed.getSamples()); !filled)
    return filled.takeError();
  std::optional<Overflow> overflow = program.findOverflow();
  kept.restore();
  if (Result<void> saved = program.save(finalPath); !saved)
    return saved.takeError();
  if (auto diverged = explainDivergence())
    error = std::move(error).withNote(*diverged);
  if (overflow)
    error = std::move(error)
                .withNote(describe(*overflow))
                .withNote(advise(*overflow));
  return std::move(error)
      .withNote("the state before this step is in " + printable(finalPath))
      .withNote("--max-skipped sets after how many such steps training stops");
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
