//===- Training.cpp - The training loop -----------------------------------===//

#include "binade/Runtime/Training.h"
#include "../Monitoring/AlarmFile.h"
#include "../Monitoring/AlarmWatch.h"
#include "../Monitoring/EventFile.h"
#include "../Monitoring/MetricsFile.h"
#include "../Monitoring/RangeRecorder.h"
#include "../Monitoring/StatisticsRecorder.h"
#include "../Runs/EarlierRun.h"
#include "../Runs/RunDirectory.h"
#include "../Runs/RunFile.h"
#include "../Runs/RunIdentity.h"
#include "BatchFeed.h"
#include "HeldOut.h"
#include "NumericGuard.h"
#include "SavedTensors.h"
#include "ScaleHistories.h"
#include "StepRollback.h"
#include "binade/Container/AtomicFile.h"
#include "binade/Runtime/ScheduledSettings.h"
#include <algorithm>
#include <chrono>
#include <filesystem>

using namespace binade;
using namespace binade::plan;

static std::vector<BatchFeed::Injected>
findInjected(const Program &program, const TrainOptions &options) {
  std::vector<BatchFeed::Injected> injected;
  for (const Injection &one : options.injections)
    injected.push_back(
        {one.data, static_cast<std::uint64_t>((one.step - 1) *
                                              program.getPlan().batches)});
  return injected;
}

namespace {
class TrainingLoop {
public:
  TrainingLoop(Program &program, const Data &data, HeldOut &heldOut,
               const TrainOptions &options)
      : program(program), data(data), heldOut(heldOut), options(options),
        guard(program, options), statistics(program), histories(program),
        watch(options.alarms.rules),
        feed(data,
             SampleOrder(options.order, heldOut.getTrainingSamples(),
                         data.getBatch(), options.seed),
             findInjected(program, options)) {
    if (options.interrupted || options.maxSeconds > 0)
      rollback.emplace(program);
  }

  Result<void> check();
  Result<TrainSummary>
  run(const std::function<void(const StepMetrics &)> &listener);
  Result<void> writeRecords() const {
    return recorder ? recorder->write() : Result<void>();
  }

private:
  Result<void> begin();
  Result<void> resume(Manifest restored);
  Result<void> replayAlarms();
  /// Returns nothing if the step was interrupted, and then undoes it.
  Result<std::optional<StepMetrics>> runStep(std::int64_t step);
  Result<double> runBatch(std::int64_t step, bool isLast);
  bool isTimeUp() const;
  bool isStopDue() const {
    return options.stopAfter > 0 && manifest.step >= options.stopAfter;
  }
  bool isSwitchDue() const {
    return options.switchAfter > 0 && manifest.step >= options.switchAfter;
  }
  bool isInterrupted() const {
    return isTimeUp() ||
           (options.interrupted && options.interrupted() != ExitCode::Ok);
  }
  Result<void> chooseHeldOut();
  Result<void> setAside(EarlierRun &earlier) const;
  void warnOfRepeats() const;
  Result<void> evaluate(StepMetrics &metrics) const;
  Result<void> evaluateStart(TrainSummary &summary);
  Result<void> evaluatePending(TrainSummary &summary);
  Result<void> addEvaluation(const StepMetrics &metrics, TrainSummary &summary);
  bool isStalled() const {
    return options.patience > 0 &&
           manifest.evaluations.stalled >= options.patience;
  }
  Result<void> observe(StepMetrics &metrics);
  Result<std::vector<Alarm>> watchStep(const StepMetrics &metrics,
                                       std::span<const Observed> observed);
  Result<void> save();
  Result<void> restoreBest() const;
  Result<void> saveInputs(std::int64_t step) const;
  std::string path(const std::string &name) const {
    return options.out + "/" + name;
  }

  Program &program;
  const Data &data;
  HeldOut &heldOut;
  const TrainOptions &options;
  std::chrono::steady_clock::time_point startTime;
  NumericGuard guard;
  StatisticsRecorder statistics;
  ScaleHistories histories;
  AlarmWatch watch;
  bool isAlarmed = false; ///< Whether an alarm of the last step ends the loop.
  BatchFeed feed;
  /// Set if signals or the time limit may interrupt a step.
  std::optional<StepRollback> rollback;
  Manifest manifest;          ///< The state of the run.
  std::int64_t savedStep = 0; ///< Step of the newest checkpoint.
  /// Step of the newest checkpoint with finite weights, which is kept.
  std::int64_t finiteStep = 0;
  std::optional<RunDirectory> directory;
  nlohmann::ordered_json description; ///< The contents of run.json.
  std::optional<MetricsFile> metricsFile;
  std::optional<EventFile> eventFile;
  std::optional<StatisticsFile> statisticsFile;
  std::optional<AlarmFile> alarmFile;
  std::optional<RangeRecorder> recorder;
  ScheduledSettings scheduled;
};
} // namespace

StepMetrics binade::readMetrics(const Program &program,
                                std::optional<double> scale) {
  auto metric = [&](std::string_view name) {
    return readScalar(program, Role::Metric, name);
  };
  StepMetrics metrics;
  metrics.loss = metric("loss").value_or(NAN);
  // A constant loss scale is a metric, not a state.
  metrics.lossScale = scale ? scale : metric("loss_scale");
  metrics.gradNorm = metric("grad_norm");
  metrics.learningRate = readScalar(program, Role::Hyper, "lr");
  metrics.skipped =
      program.getPlan().skipsNonFinite && metric("found_inf").value_or(0) != 0;
  return metrics;
}

/// Checks that the program supports the options.
Result<void> TrainingLoop::check() {
  if (Result<void> checked = guard.check(); !checked)
    return checked;
  if (options.saveGradients > 0 && program.tensors(Role::Gradient).empty())
    return Error{"--save-grads",
                 "the program does not return its gradients; train the model "
                 "instead of the bundle",
                 ExitCode::Usage};
  Result<ScheduledSettings> settings =
      ScheduledSettings::create(program, options.schedules, options.steps);
  if (!settings)
    return settings.takeError();
  scheduled = *std::move(settings);
  if (!options.recordRanges.empty()) {
    Result<RangeRecorder> made =
        RangeRecorder::create(program, options.recordRanges);
    if (!made)
      return made.takeError();
    recorder = *std::move(made);
  }
  return {};
}

/// Accumulates the current batch of `feed`, or executes the step if it is the
/// last batch. Returns the loss of the batch.
Result<double> TrainingLoop::runBatch(std::int64_t step, bool isLast) {
  if (!isLast)
    return program.accumulate(feed.getFillNext());
  if (Result<void> saved = saveInputs(step); !saved)
    return saved.takeError();
  FillNext fillNext = step < options.steps ? feed.getFillNext() : FillNext();
  if (Result<void> done = program.run(fillNext, statistics.isDue(step)); !done)
    return done.takeError();
  return *readScalar(program, Role::Metric, "loss");
}

Result<std::optional<StepMetrics>> TrainingLoop::runStep(std::int64_t step) {
  auto start = std::chrono::steady_clock::now();
  std::optional<double> scale = readScalar(program, Role::Scaler, "scale");
  if (Result<void> set = scheduled.apply(manifest.step); !set)
    return set.takeError();
  guard.keep(manifest.skippedInRow);
  if (rollback)
    rollback->capture();
  std::int64_t batches = program.getPlan().batches;
  double losses = 0;
  for (std::int64_t batch = 1; batch <= batches; ++batch) {
    if (batch > 1 && isInterrupted()) {
      if (Result<void> done = rollback->rollBack(); !done)
        return done.takeError();
      return std::optional<StepMetrics>();
    }
    if (Result<void> filled = feed.next(); !filled)
      return filled.takeError();
    Result<double> loss = runBatch(step, batch == batches);
    if (!loss)
      return loss.takeError();
    losses += *loss;
    std::int64_t number = (step - 1) * batches + batch;
    if (auto launch = program.findIndexFault())
      return Error{feed.getSource().getPath(),
                   "batch " + std::to_string(number) +
                       " leads to an index or label that is out of range, in " +
                       quote(*launch)};
    guard.observeLoss(number, *loss, feed);
  }
  StepMetrics metrics = readMetrics(program, scale);
  metrics.step = step;
  metrics.loss = losses / static_cast<double>(batches);
  std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  metrics.milliseconds = elapsed.count();
  return std::optional(metrics);
}

Result<void> TrainingLoop::evaluate(StepMetrics &metrics) const {
  auto start = std::chrono::steady_clock::now();
  Result<std::optional<Evaluation>> evaluated = heldOut.evaluate();
  if (!evaluated)
    return evaluated.takeError();
  if (*evaluated) {
    metrics.evalLoss = (*evaluated)->loss;
    metrics.evalMetrics = (*evaluated)->metrics;
  }
  std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  metrics.evalMilliseconds = elapsed.count();
  return {};
}

/// Evaluates the held-out loss before the first step, which is step 0 of the
/// metrics.
Result<void> TrainingLoop::evaluateStart(TrainSummary &summary) {
  StepMetrics metrics;
  metrics.loss = NAN;
  if (Result<void> evaluated = evaluate(metrics);
      !evaluated || !metrics.evalLoss)
    return evaluated;
  char text[64];
  std::snprintf(text, sizeof(text), "eval_loss %.4f before the first step",
                *metrics.evalLoss);
  if (options.notify && options.steps > 0)
    options.notify(text);
  if (Result<void> written = metricsFile->write(metrics); !written)
    return written;
  if (Result<void> written = eventFile->write(metrics, {}, {}); !written)
    return written;
  manifest.evaluations = {}; // A resumed run repeats the evaluation.
  return addEvaluation(metrics, summary);
}

/// Makes up for the evaluation that was interrupted before the run was resumed.
Result<void> TrainingLoop::evaluatePending(TrainSummary &summary) {
  StepMetrics metrics = metricsFile->getPending();
  if (Result<void> evaluated = evaluate(metrics); !evaluated)
    return evaluated;
  if (Result<void> written = metricsFile->write(metrics);
      !written || !metrics.evalLoss)
    return written;
  if (Result<void> written = eventFile->writeEvaluation(metrics); !written)
    return written;
  return addEvaluation(metrics, summary);
}

/// Adds the held-out loss after the step of the manifest to the history. Saves
/// a checkpoint and its copy if it is the best so far.
Result<void> TrainingLoop::addEvaluation(const StepMetrics &metrics,
                                         TrainSummary &summary) {
  summary.evalLoss = metrics.evalLoss;
  summary.evalMetrics = metrics.evalMetrics;
  summary.evalStep = metrics.step;
  bool isBest = manifest.evaluations.add({*metrics.evalLoss, metrics.step},
                                         options.minDelta);
  if (options.patience > 0)
    eventFile->add(metrics.step, "eval/stalled",
                   static_cast<double>(manifest.evaluations.stalled));
  if (!isBest || !options.keepBest)
    return {};
  if (Result<void> saved = save(); !saved)
    return saved;
  Result<bool> copied = directory->copyBest(metrics.step);
  return copied ? Result<void>() : copied.takeError();
}

/// Writes the inputs of the step if it is the last one.
Result<void> TrainingLoop::saveInputs(std::int64_t step) const {
  bool isLast = step == (options.stopAfter > 0
                             ? std::min(options.stopAfter, options.steps)
                             : options.steps);
  if (options.saveInputs.empty() || !isLast)
    return {};
  return binade::saveInputs(options.saveInputs, program, step);
}

/// Writes metrics, statistics and alarms of a step. Evaluates the held-out loss
/// after reading the results, because evaluation overwrites their memory.
Result<void> TrainingLoop::observe(StepMetrics &metrics) {
  if (metrics.step <= options.saveGradients)
    if (Result<void> written = saveGradients(options.out, program, metrics);
        !written)
      return written;
  if (recorder)
    recorder->add(metrics);
  guard.warnInfeasible(metrics);
  std::vector<Observed> observed = statistics.read(metrics.step);
  if (Result<void> written = statisticsFile->write(metrics.step, observed);
      !written)
    return written;
  if (heldOut.isDue(metrics.step))
    if (Result<void> evaluated = evaluate(metrics); !evaluated)
      return evaluated;
  if (Result<void> written = metricsFile->write(metrics); !written)
    return written;
  Result<std::vector<Alarm>> alarms = watchStep(metrics, observed);
  if (!alarms)
    return alarms.takeError();
  return eventFile->write(metrics, observed, *alarms);
}

/// Evaluates the alarm rules on a step; reports and writes the alarms.
Result<std::vector<Alarm>>
TrainingLoop::watchStep(const StepMetrics &metrics,
                        std::span<const Observed> observed) {
  if (options.alarms.rules.empty())
    return std::vector<Alarm>();
  AlarmStep seen(metrics, observed);
  histories.addTo(seen);
  std::vector<Alarm> alarms = watch.observe(seen);
  for (const Alarm &alarm : alarms) {
    if (Result<void> written = alarmFile->write(alarm, options.alarms.action);
        !written)
      return written.takeError();
    if (options.warn)
      for (const std::string &line : describe(alarm))
        options.warn(line);
  }
  isAlarmed = !alarms.empty() && options.alarms.action != OnAlarm::Warn;
  return alarms;
}

/// Opens the files of the run and, if it is resumed, restores its state.
Result<void> TrainingLoop::begin() {
  // Fail before the first step, not after the last one.
  std::error_code failure;
  for (const char *name :
       {"final.safetensors", "best.safetensors", "metrics.jsonl", "run.json",
        "run.yaml", "stats.jsonl", "alarms.jsonl"})
    if (std::filesystem::is_directory(path(name), failure))
      return Error{printable(path(name)), "cannot write: it is a directory",
                   ExitCode::IO};
  Result<RunDirectory> opened = RunDirectory::open(options.out);
  if (!opened)
    return opened.takeError();
  directory = *std::move(opened);
  warnOfRepeats();
  if (std::uint64_t bytes = rollback ? rollback->getBytesOfStates() : 0;
      bytes > 0 && options.notify)
    options.notify("additional memory: " + formatBytes(bytes) +
                   ", a copy of parameters and states that is restored when a "
                   "stop interrupts a step");
  Result<EarlierRun> earlier = EarlierRun::find(options.out);
  if (!earlier)
    return earlier.takeError();
  manifest = identifyRun(program, data, heldOut, options);
  if (options.resume) {
    auto restored = directory->restore(program, manifest, options.warn);
    if (!restored)
      return restored.takeError();
    if (*restored) {
      if (Result<void> done = resume(**std::move(restored)); !done)
        return done;
    } else if (earlier->hasFinalState()) {
      return earlier->refuse(/*isResumable=*/false);
    } else if (options.notify) {
      options.notify("no complete checkpoint in " + printable(options.out) +
                     ": starting from the first step");
    }
  } else if (Result<void> done = setAside(*earlier); !done) {
    return done;
  }
  if (Result<void> chosen = chooseHeldOut(); !chosen)
    return chosen;
  auto described =
      writeRunFile(path("run.json"), program, data, heldOut, options, manifest);
  if (!described)
    return described.takeError();
  description = *std::move(described);
  if (!options.optionFile.empty())
    if (Result<void> written =
            writeTextFile(path("run.yaml"), options.optionFile);
        !written)
      return written;
  Result<MetricsFile> metrics =
      MetricsFile::open(path("metrics.jsonl"), manifest.step, options.warn,
                        manifest.evaluations.isPending);
  if (!metrics)
    return metrics.takeError();
  metricsFile = *std::move(metrics);
  Result<StatisticsFile> ofValues =
      StatisticsFile::open(path("stats.jsonl"), manifest.step);
  if (!ofValues)
    return ofValues.takeError();
  statisticsFile = *std::move(ofValues);
  Result<AlarmFile> alarms =
      AlarmFile::open(path("alarms.jsonl"), manifest.step);
  if (!alarms)
    return alarms.takeError();
  alarmFile = *std::move(alarms);
  if (Result<void> restored = restoreBest(); !restored)
    return restored;
  if (Result<void> removed = earlier->remove(); !removed) {
    if (earlier->canRestore())
      return removed;
    if (options.warn)
      options.warn(removed.error().where + ": " + removed.error().message);
  }
  // The first events may be those of step 0.
  Result<EventFile> events = EventFile::create(
      options.out, manifest.step == 0 ? 0 : manifest.step + 1);
  if (!events)
    return events.takeError();
  eventFile = *std::move(events);
  return {};
}

/// Decides which held-out samples are evaluated, as the run did before.
Result<void> TrainingLoop::chooseHeldOut() {
  if (!heldOut.getData())
    return {};
  std::optional<std::uint64_t> earlier;
  std::string key(kEvaluated);
  if (auto kept = manifest.run.find(key); kept != manifest.run.end())
    earlier = parseDecimal(kept->second);
  Result<bool> isDecided = heldOut.chooseSamples(earlier);
  if (!isDecided)
    return isDecided.takeError();
  if (!*isDecided)
    return {};
  manifest.run[key] = std::to_string(heldOut.getNumSamples());
  if (options.notify)
    options.notify(heldOut.describe());
  return {};
}

/// Moves the files of an earlier run aside, until this one has started, or
/// refuses to.
Result<void> TrainingLoop::setAside(EarlierRun &earlier) const {
  if (earlier.hasResults() && !options.overwrite)
    return earlier.refuse(/*isResumable=*/true);
  if (Result<void> checked = earlier.checkInputs(options.files); !checked)
    return checked;
  return earlier.moveAside();
}

/// Warns if a step reads more batches than the data contain.
void TrainingLoop::warnOfRepeats() const {
  std::int64_t batches = program.getPlan().batches;
  auto available =
      static_cast<std::int64_t>(heldOut.getTrainingSamples() / data.getBatch());
  if (batches <= available || !options.warn)
    return;
  options.warn("--accumulate " + std::to_string(batches) +
               ": one step reads the data more than once, because " +
               data.getPath() + " has " + std::to_string(available) +
               (available == 1 ? " batch" : " batches") + " of " +
               std::to_string(data.getBatch()) + " samples");
}

Result<void> TrainingLoop::resume(Manifest restored) {
  if (restored.step > options.steps)
    return Error{options.epochs > 0 ? "--epochs" : "--steps",
                 "the run has done " + std::to_string(restored.step) +
                     " steps, more than " + std::to_string(options.steps),
                 ExitCode::Usage};
  manifest.step = savedStep = finiteStep = restored.step;
  manifest.skipped = restored.skipped;
  manifest.skippedInRow = restored.skippedInRow;
  manifest.evaluations = restored.evaluations;
  manifest.evaluations.isPending &= heldOut.getData() != nullptr;
  if (auto kept = restored.run.extract(std::string(kEvaluated)))
    manifest.run.insert(std::move(kept));
  feed.skip(
      static_cast<std::uint64_t>(restored.step * program.getPlan().batches));
  if (!options.notify)
    return {};
  std::string message = "resumed after step " + std::to_string(restored.step);
  if (restored.step == options.steps) {
    message += ", the last one";
    // A schedule that depends on the number of steps forbids another one.
    if (std::ranges::any_of(options.schedules, [](const Schedule &schedule) {
          return schedule.usesSteps();
        }))
      message += " of the schedule";
    else
      message += std::string("; a larger ") +
                 (options.epochs > 0 ? "--epochs" : "--steps") + " trains on";
  }
  options.notify(message);
  return {};
}

/// Copies the best state again, in case that the process ended before, or that
/// it is that of a later step, which the run repeats.
Result<void> TrainingLoop::restoreBest() const {
  const auto &lowest = manifest.evaluations.lowest;
  if (!options.keepBest || !lowest)
    return {};
  Result<bool> copied = directory->copyBest(lowest->step);
  if (!copied)
    return copied.takeError();
  if (!*copied && options.warn)
    options.warn("the state of step " + std::to_string(lowest->step) +
                 ", which has the lowest eval_loss, was not kept: "
                 "best.safetensors is written at the next lower one");
  return {};
}

/// Replays the completed steps to the alarm rules. If an alarm of the last one
/// was to switch the policy, and the process ended before, it does so now.
Result<void> TrainingLoop::replayAlarms() {
  if (options.alarms.rules.empty() || manifest.step == 0)
    return {};
  auto alarms = watch.observe(options.out, manifest.step);
  if (!alarms)
    return alarms.takeError();
  if (Result<void> done = watch.recall(path("alarms.jsonl")); !done)
    return done;
  isAlarmed = options.alarms.action == OnAlarm::Switch && !alarms->empty() &&
              alarms->back().step == manifest.step;
  return {};
}

/// Writes a checkpoint, after syncing the metrics before it to disk.
Result<void> TrainingLoop::save() {
  if (Result<void> synced = metricsFile->sync(); !synced)
    return synced;
  if (Result<void> synced = statisticsFile->sync(); !synced)
    return synced;
  if (Result<void> synced = eventFile->sync(); !synced)
    return synced;
  savedStep = manifest.step;
  if (guard.checkWeights(manifest.step))
    finiteStep = manifest.step;
  RunDirectory::Kept kept = {options.keep, {finiteStep}};
  if (options.keepBest && manifest.evaluations.lowest)
    kept.steps.insert(manifest.evaluations.lowest->step);
  return directory->save(program, manifest, kept, options.warn);
}

bool TrainingLoop::isTimeUp() const {
  std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - startTime;
  return options.maxSeconds > 0 && elapsed.count() >= options.maxSeconds;
}

Result<TrainSummary>
TrainingLoop::run(const std::function<void(const StepMetrics &)> &listener) {
  startTime = std::chrono::steady_clock::now();
  if (Result<void> begun = begin(); !begun)
    return begun.takeError();
  TrainSummary summary;
  if (manifest.step == 0 && heldOut.getData())
    if (Result<void> evaluated = evaluateStart(summary); !evaluated)
      return evaluated.takeError();
  if (manifest.evaluations.isPending)
    if (Result<void> evaluated = evaluatePending(summary); !evaluated)
      return evaluated.takeError();
  if (Result<void> looked = replayAlarms(); !looked)
    return looked.takeError();
  while (manifest.step < options.steps) {
    if (options.interrupted)
      summary.exitCode = options.interrupted();
    if (summary.exitCode != ExitCode::Ok || isStopDue() || isSwitchDue() ||
        isTimeUp() || isAlarmed || isStalled())
      break;
    std::int64_t step = manifest.step + 1;
    Result<std::optional<StepMetrics>> done = runStep(step);
    if (!done)
      return done.takeError();
    std::optional<StepMetrics> &metrics = *done;
    if (!metrics)
      continue; // The check of `interrupted` above ends the loop.
    if (Result<void> written = observe(*metrics); !written)
      return written.takeError();
    if (listener)
      listener(*metrics);
    manifest.step = step;
    manifest.skipped += metrics->skipped;
    manifest.skippedInRow = metrics->skipped ? manifest.skippedInRow + 1 : 0;
    summary.lastLoss = metrics->loss;
    summary.milliseconds += metrics->milliseconds;
    summary.epochs = feed.getEpoch() + 1;
    if (std::optional<Error> error = guard.judge(
            *metrics, manifest.skippedInRow, feed, path("final.safetensors")))
      return *std::move(error);
    manifest.evaluations.isPending = heldOut.isDue(step) && !metrics->evalLoss;
    if (metrics->evalLoss)
      if (Result<void> added = addEvaluation(*metrics, summary); !added)
        return added.takeError();
    if (options.saveEvery > 0 && step % options.saveEvery == 0 &&
        step > savedStep)
      if (Result<void> saved = save(); !saved)
        return saved.takeError();
  }
  if (Result<void> written = eventFile->flush(); !written)
    return written.takeError();
  // After the last step there is no reason to switch the policy.
  bool isDone = manifest.step == options.steps;
  summary.isAlarmed =
      isAlarmed && !(isDone && options.alarms.action == OnAlarm::Switch);
  bool isOver = isDone || isStopDue() || isTimeUp() || isStalled();
  summary.switchesPolicy =
      summary.exitCode == ExitCode::Ok && !isOver &&
      (isAlarmed ? options.alarms.action == OnAlarm::Switch : isSwitchDue());
  if (isAlarmed && options.alarms.action == OnAlarm::Stop)
    summary.exitCode = ExitCode::NumericGuard;
  summary.steps = manifest.step;
  summary.skipped = manifest.skipped;
  summary.evaluations = manifest.evaluations;
  summary.isStalled = isStalled() && !isDone;
  // With checkpoints, or if the run stopped early, it may be resumed later.
  bool isWanted = options.saveEvery > 0 || options.keepBest ||
                  manifest.step < options.steps;
  if (isWanted && manifest.step > savedStep)
    if (Result<void> saved = save(); !saved)
      return saved.takeError();
  std::string final = path("final.safetensors");
  if (Result<void> saved = program.save(final); !saved)
    return saved.takeError();
  if (auto written = writeOutcome(path("run.json"), description, summary);
      !written)
    return written.takeError();
  if (!guard.conclude(manifest.step, final) && summary.exitCode == ExitCode::Ok)
    summary.exitCode = ExitCode::NumericGuard;
  return summary;
}

Result<TrainSummary>
binade::train(Program &program, const Data &data, const TrainOptions &options,
              const std::function<void(const StepMetrics &)> &listener) {
  Result<HeldOut> heldOut = HeldOut::create(program, data, options);
  if (!heldOut)
    return heldOut.takeError();
  TrainingLoop loop(program, data, *heldOut, options);
  if (Result<void> checked = loop.check(); !checked)
    return checked.takeError();
  Result<TrainSummary> summary = loop.run(listener);
  // Written even after an error, because the ranges may explain it.
  Result<void> recorded = loop.writeRecords();
  if (summary && !recorded)
    return recorded.takeError();
  return summary;
}
