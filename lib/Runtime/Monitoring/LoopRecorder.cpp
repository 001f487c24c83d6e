//===- LoopRecorder.cpp - Records of training loops of others -------------===//

#include "binade/Runtime/LoopRecorder.h"
#include "../Runs/RunDirectory.h"
#include "AlarmFile.h"
#include "AlarmWatch.h"
#include "EventFile.h"
#include "MetricsFile.h"
#include "binade/Container/Printable.h"
#include <cmath>
#include <filesystem>

using namespace binade;

namespace {
/// The files of a run's directory.
struct Files {
  RunDirectory directory;
  MetricsFile metrics;
  StatisticsFile statistics;
  AlarmFile alarms;
  EventFile events;

  static Result<Files> open(const std::string &path, std::int64_t step);
};

/// The statistics of a value in the current step.
struct Value {
  std::string kind, layer;
  std::vector<RecordedStatistic> statistics;
};

struct Source {
  Program *program;
  StatisticsRecorder recorder;
};
} // namespace

Result<Files> Files::open(const std::string &path, std::int64_t step) {
  // A run that ended before its first step leaves empty files.
  std::error_code absent;
  auto size = std::filesystem::file_size(path + "/metrics.jsonl", absent);
  if (step == 0 && !absent && size > 0)
    return Error{
        printable(path),
        "the directory has the steps of another run; choose a new one, "
        "or set 'step' to the number of completed steps to continue",
        ExitCode::Usage};
  Result<RunDirectory> directory = RunDirectory::open(path);
  if (!directory)
    return directory.takeError();
  auto metrics = MetricsFile::open(path + "/metrics.jsonl", step, {});
  if (!metrics)
    return metrics.takeError();
  auto statistics = StatisticsFile::open(path + "/stats.jsonl", step);
  if (!statistics)
    return statistics.takeError();
  auto alarms = AlarmFile::open(path + "/alarms.jsonl", step);
  if (!alarms)
    return alarms.takeError();
  auto events = EventFile::create(path, step + 1);
  if (!events)
    return events.takeError();
  return Files{*std::move(directory), *std::move(metrics),
               *std::move(statistics), *std::move(alarms), *std::move(events)};
}

struct LoopRecorder::Implementation {
  explicit Implementation(const AlarmSettings &alarms)
      : alarms(alarms), watch(alarms.rules) {}

  AlarmSettings alarms;
  AlarmWatch watch;
  std::optional<Files> files;
  std::vector<Source> sources;
  std::vector<Value> values; ///< Of the current step.
  std::map<std::pair<std::string, std::string>, std::size_t, std::less<>> index;
  std::vector<RecordedStatistic> latest;

  /// Returns the statistics of a value in the current step.
  std::vector<RecordedStatistic> &find(std::string_view kind,
                                       std::string_view layer) {
    auto [known, isNew] = index.try_emplace(
        {std::string(kind), std::string(layer)}, values.size());
    if (isNew)
      values.push_back({known->first.first, known->first.second, {}});
    return values[known->second].statistics;
  }

  Result<void> write(const StepMetrics &metrics,
                     std::span<const Observed> observed,
                     std::span<const Alarm> raised);
};

static std::string makeName(std::string_view kind, std::string_view layer,
                            std::string_view statistic) {
  return std::string(kind) + "/" + std::string(layer) + "/" +
         std::string(statistic);
}

/// Adds a statistic, which replaces one of the same name.
static void set(std::vector<RecordedStatistic> &statistics,
                RecordedStatistic one) {
  for (RecordedStatistic &known : statistics)
    if (known.name == one.name) {
      known = std::move(one);
      return;
    }
  statistics.push_back(std::move(one));
}

/// Returns views of the statistics of all values.
static std::vector<Observed> observe(const std::vector<Value> &values) {
  std::vector<Observed> observed;
  for (const Value &value : values)
    for (const RecordedStatistic &one : value.statistics) {
      std::string_view statistic = one.name;
      statistic.remove_prefix(value.kind.size() + value.layer.size() + 2);
      observed.push_back(
          {value.kind, value.layer, statistic, one.number, one.exponents});
    }
  return observed;
}

Result<void>
LoopRecorder::Implementation::write(const StepMetrics &metrics,
                                    std::span<const Observed> observed,
                                    std::span<const Alarm> raised) {
  Result<void> written = files->statistics.write(metrics.step, observed);
  if (written)
    written = files->metrics.write(metrics);
  for (const Alarm &alarm : raised)
    if (written)
      written = files->alarms.write(alarm, alarms.action);
  return written ? files->events.write(metrics, observed, raised) : written;
}

//===----------------------------------------------------------------------===//
// LoopRecorder
//===----------------------------------------------------------------------===//

LoopRecorder::LoopRecorder(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}
LoopRecorder::LoopRecorder(LoopRecorder &&) noexcept = default;
LoopRecorder &LoopRecorder::operator=(LoopRecorder &&) noexcept = default;
LoopRecorder::~LoopRecorder() = default;

Result<LoopRecorder> LoopRecorder::open(const std::string &directory,
                                        std::int64_t step,
                                        const AlarmSettings &alarms) {
  auto made = std::make_unique<Implementation>(alarms);
  if (!directory.empty()) {
    Result<Files> files = Files::open(directory, step);
    if (!files)
      return files.takeError();
    made->files = *std::move(files);
  }
  if (made->files && step > 0) {
    auto replayed = made->watch.observe(directory, step);
    if (!replayed)
      return replayed.takeError();
    if (Result<void> recalled = made->watch.recall(directory + "/alarms.jsonl");
        !recalled)
      return recalled.takeError();
  }
  return LoopRecorder(std::move(made));
}

std::size_t LoopRecorder::add(Program &program) {
  implementation->sources.push_back({&program, StatisticsRecorder(program)});
  return implementation->sources.size() - 1;
}

Result<std::vector<RecordedStatistic>>
LoopRecorder::compute(std::size_t number, std::span<const Memory> memory) {
  Source &source = implementation->sources[number];
  for (auto [port, address] : memory)
    if (Result<void> bound = source.program->bind(port, address); !bound)
      return bound.takeError();
  if (Result<void> done = source.program->run({}, /*observes=*/true); !done)
    return done.takeError();
  std::vector<RecordedStatistic> statistics;
  for (const Observed &one : source.recorder.read(/*step=*/0))
    statistics.push_back({std::string(one.statistic),
                          one.number,
                          {one.exponents.begin(), one.exponents.end()}});
  return statistics;
}

void LoopRecorder::record(std::string_view kind, std::string_view layer,
                          std::span<const RecordedStatistic> statistics) {
  std::vector<RecordedStatistic> &known = implementation->find(kind, layer);
  for (RecordedStatistic one : statistics) {
    one.name = makeName(kind, layer, one.name);
    set(known, std::move(one));
  }
}

std::pair<double, std::size_t>
LoopRecorder::computeNorm(std::string_view kind) const {
  double squares = 0;
  std::size_t count = 0;
  for (const Value &value : implementation->values) {
    if (value.kind != kind)
      continue;
    std::string name = makeName(kind, value.layer, "norm");
    for (const RecordedStatistic &one : value.statistics)
      if (one.name == name) {
        squares += one.number * one.number;
        ++count;
      }
  }
  return {std::sqrt(squares), count};
}

Result<std::vector<Alarm>> LoopRecorder::finish(const StepMetrics &metrics) {
  std::vector<Observed> observed = observe(implementation->values);
  std::vector<Alarm> alarms =
      implementation->watch.observe(AlarmStep(metrics, observed));
  if (implementation->files)
    if (Result<void> written = implementation->write(metrics, observed, alarms);
        !written)
      return written.takeError();
  if (!observed.empty()) {
    implementation->latest.clear();
    for (Value &value : implementation->values)
      for (RecordedStatistic &one : value.statistics)
        implementation->latest.push_back(std::move(one));
  }
  discard();
  return alarms;
}

void LoopRecorder::discard() {
  implementation->values.clear();
  implementation->index.clear();
}

Result<void> LoopRecorder::close() {
  std::optional<Files> files = std::exchange(implementation->files, {});
  if (!files)
    return {};
  Result<void> done = files->metrics.sync();
  if (done)
    done = files->statistics.sync();
  if (done)
    done = files->alarms.sync();
  return done ? files->events.sync() : done;
}

const std::vector<RecordedStatistic> &LoopRecorder::getStatistics() const {
  return implementation->latest;
}
