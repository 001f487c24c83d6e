//===- Training.cpp - Run a training step over data -----------------------===//

#include "binade/Runtime/Training.h"
#include "MetricsFile.h"
#include "RangeRecorder.h"
#include "RunFile.h"
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

using namespace binade;
using namespace binade::plan;

std::optional<OnNonFinite> binade::parseOnNonFinite(std::string_view text) {
  if (text == "stop")
    return OnNonFinite::Stop;
  if (text == "skip")
    return OnNonFinite::Skip;
  if (text == "continue")
    return OnNonFinite::Continue;
  return std::nullopt;
}

namespace {
/// What a step changes even when it is skipped: running statistics, the
/// generator's state, and the loss scale.
class UnguardedState {
public:
  explicit UnguardedState(const Program &program) {
    for (Role role : {Role::Buffer, Role::Rng, Role::Scaler})
      for (const Tensor &tensor : program.tensors(role))
        copies.emplace_back(tensor,
                            std::vector<std::byte>(tensor.bytes.size()));
  }

  void keep() {
    for (auto &[tensor, bytes] : copies)
      std::memcpy(bytes.data(), tensor.bytes.data(), bytes.size());
  }
  void restore() const {
    for (const auto &[tensor, bytes] : copies)
      std::memcpy(tensor.bytes.data(), bytes.data(), bytes.size());
  }

private:
  std::vector<std::pair<Tensor, std::vector<std::byte>>> copies;
};

class TrainingLoop {
public:
  TrainingLoop(Program &program, const Data &data, const TrainOptions &options)
      : program(program), data(data), options(options), unguarded(program),
        order(options.order, data.getNumSamples(), data.getBatch(),
              options.seed) {}

  Result<void> check();
  Result<TrainSummary>
  run(const std::function<void(const StepMetrics &)> &listener);
  Result<void> writeRecords() const {
    return recorder ? recorder->write() : Result<void>();
  }

private:
  Result<StepMetrics> runStep(std::int64_t step);
  Result<void> saveGradients(const StepMetrics &metrics) const;
  Error stop(const StepMetrics &metrics);
  Error stopSkipping(const StepMetrics &metrics);
  void warnInfeasible(const StepMetrics &metrics);
  std::string path(const std::string &name) const {
    return options.out + "/" + name;
  }
  std::optional<double> metric(std::string_view name) const {
    return readScalar(program, Role::Metric, name);
  }
  /// Whether training stops should the next step be skipped, too.
  bool isLastSkip() const {
    return onNonFinite == OnNonFinite::Skip && options.maxSkipped > 0 &&
           skippedInRow + 1 >= options.maxSkipped;
  }
  bool hasScaler() const {
    return program.find(Role::Scaler, "scale").has_value();
  }

  Program &program;
  const Data &data;
  const TrainOptions &options;
  OnNonFinite onNonFinite = OnNonFinite::Stop;
  UnguardedState unguarded;
  SampleOrder order;
  std::span<const std::uint64_t> samples; ///< Of the step's batch.
  std::int64_t skippedInRow = 0;
  std::optional<RangeRecorder> recorder;
  bool wasInfeasible = false;
};
} // namespace

/// What program and options have to have in common.
Result<void> TrainingLoop::check() {
  bool skips = program.getPlan().skipsNonFinite;
  onNonFinite = options.onNonFinite.value_or(hasScaler() ? OnNonFinite::Skip
                                                         : OnNonFinite::Stop);
  constexpr const char *kWhere = "--on-nonfinite";
  if (!metric("loss"))
    return Error{kPlanTensor.data(),
                 "the program has no metric 'loss': it is no training step"};
  if (hasScaler() && onNonFinite != OnNonFinite::Skip)
    return Error{kWhere,
                 "the program scales its loss: steps whose gradients overflow "
                 "are part of finding the scale and are skipped",
                 ExitCode::Usage};
  if (skips && onNonFinite == OnNonFinite::Continue)
    return Error{kWhere,
                 "the program was compiled to skip steps that are not finite; "
                 "'continue' needs the model itself",
                 ExitCode::Usage};
  if (!skips && onNonFinite != OnNonFinite::Continue)
    return Error{kWhere,
                 "the program was compiled to apply steps that are not finite; "
                 "use --on-nonfinite continue",
                 ExitCode::Usage};
  if (options.saveGradients > 0 && program.tensors(Role::Gradient).empty())
    return Error{"--save-grads",
                 "the program does not give its gradients; train the model "
                 "itself",
                 ExitCode::Usage};
  if (!options.recordRanges.empty()) {
    Result<RangeRecorder> made =
        RangeRecorder::create(program, options.recordRanges);
    if (!made)
      return made.takeError();
    recorder = *std::move(made);
  }
  return {};
}

Result<StepMetrics> TrainingLoop::runStep(std::int64_t step) {
  auto start = std::chrono::steady_clock::now();
  StepMetrics metrics;
  metrics.step = step;
  metrics.lossScale = readScalar(program, Role::Scaler, "scale");
  samples = order.next();
  if (Result<void> filled = data.fill(samples); !filled)
    return filled.takeError();
  if (onNonFinite == OnNonFinite::Stop || isLastSkip())
    unguarded.keep();
  program.run();
  if (auto launch = program.findIndexFault())
    return Error{data.getPath(),
                 "batch " + std::to_string(step) +
                     " leads to an index or label that is out of range, in " +
                     quote(*launch)};
  metrics.loss = *metric("loss");
  if (!metrics.lossScale)
    metrics.lossScale = metric("loss_scale"); // One that never changes.
  metrics.gradNorm = metric("grad_norm");
  metrics.skipped =
      program.getPlan().skipsNonFinite && metric("found_inf").value_or(0) != 0;
  std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  metrics.milliseconds = elapsed.count();
  return metrics;
}

/// Gradients as the update sees them, but for clipping: in f32, multiplied by
/// 1 / loss scale.
Result<void> TrainingLoop::saveGradients(const StepMetrics &metrics) const {
  auto inverse = static_cast<float>(1.0 / metrics.lossScale.value_or(1.0));
  std::vector<Tensor> gradients = program.tensors(Role::Gradient);
  std::vector<std::vector<float>> values;
  std::vector<TensorBytes> stored;
  for (const Tensor &tensor : gradients) {
    std::vector<float> &unscaled = values.emplace_back();
    for (float value : tensor.as<float>())
      unscaled.push_back(value * inverse);
    stored.push_back({std::string(tensor.name),
                      DType::F32,
                      {tensor.shape.begin(), tensor.shape.end()},
                      std::as_bytes(std::span(unscaled))});
  }
  char name[64];
  std::snprintf(name, sizeof(name), "grads-%06lld.safetensors",
                static_cast<long long>(metrics.step));
  return writeSafetensors(path(name), stored,
                          {{"step", std::to_string(metrics.step)}});
}

/// Where gradients are not finite the update kept what it guards. A loss can be
/// infinite although they are finite: then the update was sound.
Error TrainingLoop::stop(const StepMetrics &metrics) {
  if (metrics.skipped)
    unguarded.restore();
  std::string loss = std::isfinite(metrics.loss) ? std::to_string(metrics.loss)
                     : std::isnan(metrics.loss)  ? "NaN"
                                                 : "infinite";
  if (Result<void> saved = program.save(path("final.safetensors")); !saved)
    return saved.takeError();
  return Error{"step " + std::to_string(metrics.step),
               metrics.skipped
                   ? "the gradients are not finite (the loss is " + loss + ")"
                   : "the loss is " + loss,
               ExitCode::NumericGuard}
      .withNote("the state " +
                std::string(metrics.skipped ? "before" : "after") +
                " this step is in " + printable(path("final.safetensors")))
      .withNote("a smaller --lr or a --clip may help; --on-nonfinite skip "
                "leaves such steps out");
}

/// The node of a record's label, "op node +2"; empty for none.
static std::string nodeOf(std::string_view label) {
  std::size_t start = label.find(' '), end = label.rfind(" +");
  if (start == label.npos)
    return "";
  return std::string(label.substr(start + 1, end - start - 1));
}

static std::string describe(const Overflow &overflow) {
  auto format = [](const char *text, double number) {
    char line[64];
    std::snprintf(line, sizeof(line), text, number);
    return std::string(line);
  };
  std::string text = "first not finite: " + std::to_string(overflow.notFinite) +
                     " of " + std::to_string(overflow.elements) +
                     " elements in " + std::string(name(overflow.dtype)) +
                     ", made by " + quote(overflow.label);
  if (overflow.notFinite < overflow.elements)
    text += format("; the others reach %g", overflow.largest);
  return text + format("; what it read reaches %g", overflow.operands);
}

/// Which precision would have helped.
static std::string advise(const Overflow &overflow) {
  std::string node = nodeOf(overflow.label);
  if (overflow.dtype == DType::F32 || overflow.dtype == DType::F64)
    return "no policy helps, for it is a wide format already; a smaller --lr "
           "or a --clip may, or other data";
  if (node.empty())
    return "a policy whose narrow format is bf16 may help";
  std::string text =
      "as a rule of the policy this keeps it wide: - {match: {name: " +
      quoteGlob(node) + "}, class: deny}";
  // The value is beyond the format for its readers, too.
  if (std::string reader = nodeOf(overflow.reader);
      !reader.empty() && reader != node)
    text += ", with one for " + quoteGlob(reader) + ", which reads it";
  return text;
}

/// Once: which gradients ask for more scale, and which do not allow it.
void TrainingLoop::warnInfeasible(const StepMetrics &metrics) {
  if (wasInfeasible || metric("no_feasible_scale").value_or(0) == 0)
    return;
  wasInfeasible = true;
  constexpr std::string_view kLargest = "amax gradient ",
                             kVanished = "vanished gradient ";
  std::string_view largest, vanishing;
  double amax = -1, share = -1;
  for (const Tensor &tensor : program.tensors(Role::Statistic)) {
    double value = *readScalar(program, Role::Statistic, tensor.name);
    if (tensor.name.starts_with(kLargest) && value > amax) {
      amax = value;
      largest = tensor.name.substr(kLargest.size());
    }
    if (!tensor.name.starts_with(kVanished))
      continue;
    std::string_view parameter = tensor.name.substr(kVanished.size());
    double nonzero = readScalar(program, Role::Statistic,
                                "nonzero gradient " + std::string(parameter))
                         .value_or(0);
    if (nonzero > 0 && value / nonzero > share) {
      share = value / nonzero;
      vanishing = parameter;
    }
  }
  char numbers[2][64];
  std::snprintf(numbers[0], sizeof(numbers[0]), "%.3g%% of", 100 * share);
  std::snprintf(numbers[1], sizeof(numbers[1]), "reaches %.4g at a scale of %g",
                amax, metrics.lossScale.value_or(1));
  if (options.warn)
    options.warn("step " + std::to_string(metrics.step) +
                 ": no feasible scale: " + numbers[0] + " the gradient of " +
                 quote(vanishing) + " has become 0, and that of " +
                 quote(largest) + " " + numbers[1] +
                 ", which leaves no room for more; a policy that keeps one of "
                 "them wide, or whose narrow format is bf16, may help");
}

/// The step is computed again, up to what went wrong.
Error TrainingLoop::stopSkipping(const StepMetrics &metrics) {
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
  unguarded.restore();
  if (Result<void> filled = data.fill(samples); !filled)
    return filled.takeError();
  std::optional<Overflow> overflow = program.findOverflow();
  unguarded.restore();
  if (Result<void> saved = program.save(path("final.safetensors")); !saved)
    return saved.takeError();
  if (overflow)
    error = std::move(error)
                .withNote(describe(*overflow))
                .withNote(advise(*overflow));
  return std::move(error)
      .withNote("the state before this step is in " +
                printable(path("final.safetensors")))
      .withNote("--max-skipped says after how many steps training stops");
}

Result<TrainSummary>
TrainingLoop::run(const std::function<void(const StepMetrics &)> &listener) {
  std::error_code failure;
  std::filesystem::create_directories(options.out, failure);
  if (failure)
    return systemError(printable(options.out), "cannot make the directory",
                       failure.value());
  // Noticed before the steps, not after them.
  for (const char *name : {"final.safetensors", "metrics.jsonl", "run.json"})
    if (std::filesystem::is_directory(path(name), failure))
      return Error{printable(path(name)), "cannot write: it is a directory",
                   ExitCode::IO};
  if (Result<void> written =
          writeRunFile(path("run.json"), program, data, options);
      !written)
    return written.takeError();
  Result<MetricsFile> file = MetricsFile::create(path("metrics.jsonl"));
  if (!file)
    return file.takeError();

  TrainSummary summary;
  for (std::int64_t step = 1; step <= options.steps; ++step) {
    if (options.interrupted)
      summary.exitCode = options.interrupted();
    if (summary.exitCode != ExitCode::Ok)
      break;
    Result<StepMetrics> metrics = runStep(step);
    if (!metrics)
      return metrics.takeError();
    if (Result<void> written = file->write(*metrics); !written)
      return written.takeError();
    if (step <= options.saveGradients)
      if (Result<void> written = saveGradients(*metrics); !written)
        return written.takeError();
    if (recorder)
      recorder->add(*metrics);
    warnInfeasible(*metrics);
    if (listener)
      listener(*metrics);
    summary.steps = step;
    summary.skipped += metrics->skipped;
    skippedInRow = metrics->skipped ? skippedInRow + 1 : 0;
    summary.lastLoss = metrics->loss;
    summary.milliseconds += metrics->milliseconds;
    summary.epochs = order.getEpoch() + 1;
    if (onNonFinite == OnNonFinite::Stop &&
        (metrics->skipped || !std::isfinite(metrics->loss)))
      return stop(*metrics);
    if (options.maxSkipped > 0 && skippedInRow >= options.maxSkipped)
      return stopSkipping(*metrics);
  }
  if (Result<void> saved = program.save(path("final.safetensors")); !saved)
    return saved.takeError();
  return summary;
}

Result<TrainSummary>
binade::train(Program &program, const Data &data, const TrainOptions &options,
              const std::function<void(const StepMetrics &)> &listener) {
  TrainingLoop loop(program, data, options);
  if (Result<void> checked = loop.check(); !checked)
    return checked.takeError();
  Result<TrainSummary> summary = loop.run(listener);
  // What was seen before something went wrong may say why it did.
  Result<void> recorded = loop.writeRecords();
  if (summary && !recorded)
    return recorded.takeError();
  return summary;
}
