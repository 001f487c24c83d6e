//===- Monitor.cpp - Statistics and alarms of PyTorch loops ---------------===//

#include "Modules.h"
#include "Reports.h"
#include "binade/IR/Binade.h"
#include "binade/Monitor/Requests.h"
#include "binade/Pipelines/AlarmRules.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Runtime/LoopRecorder.h"
#include <cmath>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;
using namespace binade;
using namespace binade::python;
using mlir::binade::StatisticsRequest;
using mlir::binade::WatchedKind;
using mlir::binade::WatchedKindInfo;

namespace {
/// A parsed request, with the context of its formats and the text that its
/// globs refer to.
struct Request {
  std::shared_ptr<mlir::MLIRContext> context;
  std::shared_ptr<const std::string> text;
  StatisticsRequest parsed;
};
} // namespace

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

static std::vector<Request> parseRequests(const std::vector<std::string> &texts,
                                          const std::string &origin) {
  auto context = std::make_shared<mlir::MLIRContext>(
      mlir::MLIRContext::Threading::DISABLED);
  std::vector<Request> requests;
  for (const std::string &text : texts) {
    auto kept = std::make_shared<const std::string>(text);
    requests.push_back(
        {context, kept,
         take(mlir::binade::parseStatisticsRequest(*kept, *context, origin))});
  }
  return requests;
}

static std::vector<std::string> listStatistics(const Request &request) {
  std::vector<std::string> names;
  for (const StatisticsRequest::Wanted &wanted : request.parsed.statistics)
    names.push_back(wanted.name);
  return names;
}

/// Returns the kinds that the request names; `*` means all.
static std::vector<std::string> listKinds(const Request &request) {
  std::vector<std::string> names;
  for (const WatchedKindInfo &info : mlir::binade::getWatchedKinds()) {
    bool isNamed =
        llvm::any_of(request.parsed.filters, [&](const auto &filter) {
          return filter.kind ? *filter.kind == info.kind : !info.isOnlyNamed;
        });
    if (isNamed)
      names.push_back(info.name.str());
  }
  return names;
}

static bool matches(const Request &request, const std::string &kind,
                    const std::string &layer, bool isRepeated) {
  for (const WatchedKindInfo &info : mlir::binade::getWatchedKinds())
    if (info.name == kind)
      return request.parsed.matches(info.kind, layer, isRepeated);
  return false;
}

static void addRequests(nb::module_ &module) {
  nb::class_<Request>(module, "StatisticsRequest")
      .def_prop_ro("statistics", &listStatistics)
      .def_prop_ro("kinds", &listKinds)
      .def_prop_ro("every",
                   [](const Request &request) { return request.parsed.every; })
      .def("matches", &matches, "kind"_a, "layer"_a, "is_repeated"_a = false);
  module.def("parse_requests", &parseRequests, "texts"_a, "origin"_a);
}

//===----------------------------------------------------------------------===//
// Rules of alarms
//===----------------------------------------------------------------------===//

static AlarmSettings chooseRules(const std::vector<std::string> &words,
                                 const std::string &action) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.getOrLoadDialect<mlir::binade::BinadeDialect>();
  check(mlir::binade::checkAlarmRequests(words, &context));
  Reports reports(context, "alarms");
  mlir::binade::CompileOptions options;
  options.alarms = words;
  options.onAlarm = action;
  return reports.take(mlir::binade::chooseAlarms(
      reports.take(mlir::binade::findAlarmRequests(options, {}, &context)),
      &context));
}

static void addRules(nb::module_ &module) {
  nb::class_<AlarmSettings>(module, "AlarmSettings")
      .def_prop_ro("rules",
                   [](const AlarmSettings &settings) {
                     std::vector<std::string> names;
                     for (const AlarmRule &rule : settings.rules)
                       names.push_back(rule.name);
                     return names;
                   })
      .def_prop_ro("requests",
                   [](const AlarmSettings &settings) {
                     return mlir::binade::listRequests(settings.rules);
                   })
      .def_prop_ro("action", &AlarmSettings::getAction);
  module.def("choose_alarm_rules", &chooseRules, "words"_a, "action"_a);
}

//===----------------------------------------------------------------------===//
// The recorder
//===----------------------------------------------------------------------===//

using Memory = std::vector<std::pair<std::size_t, std::uintptr_t>>;

static std::vector<RecordedStatistic>
compute(LoopRecorder &recorder, std::size_t program, const Memory &memory) {
  nb::gil_scoped_release release;
  std::vector<LoopRecorder::Memory> bound;
  bound.reserve(memory.size());
  for (auto [port, address] : memory)
    bound.emplace_back(port, reinterpret_cast<void *>(address));
  return take(recorder.compute(program, bound));
}

static void computeAndRecord(LoopRecorder &recorder, std::size_t program,
                             const Memory &memory, std::string_view kind,
                             std::string_view layer) {
  recorder.record(kind, layer, compute(recorder, program, memory));
}

/// Returns numbers by name, and histograms as counts by biased exponent.
static nb::dict toPython(const std::vector<RecordedStatistic> &statistics) {
  nb::dict found;
  for (const RecordedStatistic &one : statistics)
    found[one.name.c_str()] =
        one.exponents.empty() ? nb::cast(one.number) : nb::cast(one.exponents);
  return found;
}

static void recordValues(LoopRecorder &recorder, std::string_view kind,
                         std::string_view layer, const nb::dict &values) {
  std::vector<RecordedStatistic> statistics;
  for (auto [name, value] : values) {
    RecordedStatistic one{nb::cast<std::string>(name), NAN, {}};
    if (!nb::try_cast(value, one.number))
      one.exponents = nb::cast<std::vector<std::int64_t>>(value);
    statistics.push_back(std::move(one));
  }
  recorder.record(kind, layer, statistics);
}

static std::vector<Alarm> finish(LoopRecorder &recorder, std::int64_t step,
                                 double loss, std::optional<double> gradNorm,
                                 std::optional<double> lossScale,
                                 std::optional<double> learningRate,
                                 bool skipped, double milliseconds) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = loss;
  metrics.gradNorm = gradNorm;
  metrics.lossScale = lossScale;
  metrics.learningRate = learningRate;
  metrics.skipped = skipped;
  metrics.milliseconds = milliseconds;
  return take(recorder.finish(metrics));
}

static void addRecorder(nb::module_ &module) {
  nb::class_<LoopRecorder>(module, "LoopRecorder")
      .def(
          "add",
          [](LoopRecorder &recorder, Program &program) {
            return recorder.add(program);
          },
          "program"_a, nb::keep_alive<1, 2>())
      .def(
          "compute",
          [](LoopRecorder &recorder, std::size_t program,
             const Memory &memory) {
            return toPython(compute(recorder, program, memory));
          },
          "program"_a, "memory"_a)
      .def("compute_and_record", &computeAndRecord, "program"_a, "memory"_a,
           "kind"_a, "layer"_a)
      .def("record", &recordValues, "kind"_a, "layer"_a, "values"_a)
      .def("compute_norm", &LoopRecorder::computeNorm, "kind"_a)
      .def("finish", &finish, "step"_a, "loss"_a, "grad_norm"_a.none(),
           "loss_scale"_a.none(), "lr"_a.none(), "skipped"_a, "milliseconds"_a)
      .def("discard", &LoopRecorder::discard)
      .def("close", [](LoopRecorder &recorder) { check(recorder.close()); })
      .def("statistics", [](const LoopRecorder &recorder) {
        return toPython(recorder.getStatistics());
      });
  module.def(
      "open_recorder",
      [](const std::string &directory, std::int64_t step,
         const AlarmSettings &alarms) {
        return take(LoopRecorder::open(directory, step, alarms));
      },
      "directory"_a, "step"_a, "alarms"_a);
}

void python::addMonitor(nb::module_ &module) {
  addRequests(module);
  addRules(module);
  addRecorder(module);
}
