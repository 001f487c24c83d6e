//===- NumericGuard.cpp - Steps whose numbers are not finite --------------===//

#include "NumericGuard.h"
#include "OverflowText.h"
#include <cmath>
#include <cstring>

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

NumericGuard::NumericGuard(Program &program, const Data &data,
                           const TrainOptions &options)
    : program(program), data(data), options(options),
      onNonFinite(options.onNonFinite.value_or(
          hasScaler() ? OnNonFinite::Skip : OnNonFinite::Stop)) {
  std::vector<Tensor> tensors = program.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Role role = tensors[i].role;
    if ((role == Role::Buffer && !program.getPlan().ports[i].frozen) ||
        role == Role::Rng || role == Role::Scaler)
      kept.emplace_back(tensors[i],
                        std::vector<std::byte>(tensors[i].bytes.size()));
  }
}

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
  bool isLastSkip = onNonFinite == OnNonFinite::Skip &&
                    options.maxSkipped > 0 &&
                    skippedInRow + 1 >= options.maxSkipped;
  if (onNonFinite != OnNonFinite::Stop && !isLastSkip)
    return;
  for (auto &[tensor, bytes] : kept)
    std::memcpy(bytes.data(), tensor.bytes.data(), bytes.size());
}

void NumericGuard::restore() const {
  for (const auto &[tensor, bytes] : kept)
    std::memcpy(tensor.bytes.data(), bytes.data(), bytes.size());
}

std::optional<Error> NumericGuard::judge(const StepMetrics &metrics,
                                         std::int64_t skippedInRow,
                                         std::span<const std::uint64_t> samples,
                                         const std::string &finalPath) {
  if (onNonFinite == OnNonFinite::Stop &&
      (metrics.skipped || !std::isfinite(metrics.loss)))
    return stop(metrics, finalPath);
  if (options.maxSkipped > 0 && skippedInRow >= options.maxSkipped)
    return stopSkipping(metrics, skippedInRow, samples, finalPath);
  return std::nullopt;
}

/// Where gradients are not finite the update kept what it guards. A loss can be
/// infinite although they are finite: then the update was sound.
Error NumericGuard::stop(const StepMetrics &metrics,
                         const std::string &finalPath) {
  if (metrics.skipped)
    restore();
  std::string loss = std::isfinite(metrics.loss) ? std::to_string(metrics.loss)
                     : std::isnan(metrics.loss)  ? "NaN"
                                                 : "infinite";
  if (Result<void> saved = program.save(finalPath); !saved)
    return saved.takeError();
  return Error{"step " + std::to_string(metrics.step),
               metrics.skipped
                   ? "the gradients are not finite (the loss is " + loss + ")"
                   : "the loss is " + loss,
               ExitCode::NumericGuard}
      .withNote("the state " +
                std::string(metrics.skipped ? "before" : "after") +
                " this step is in " + printable(finalPath))
      .withNote("a smaller --lr or a --clip may help; --on-nonfinite skip "
                "leaves such steps out");
}

/// The step is computed again, up to what went wrong.
Error NumericGuard::stopSkipping(const StepMetrics &metrics,
                                 std::int64_t skippedInRow,
                                 std::span<const std::uint64_t> samples,
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
  restore();
  if (Result<void> filled = data.fill(samples); !filled)
    return filled.takeError();
  std::optional<Overflow> overflow = program.findOverflow();
  restore();
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
