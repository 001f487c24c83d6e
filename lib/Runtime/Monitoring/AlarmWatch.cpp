//===- AlarmWatch.cpp - Evaluation of alarm rules -------------------------===//

#include "AlarmWatch.h"
#include "AlarmSeries.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/JoinFirst.h"
#include "binade/Container/Numbers.h"
#include "binade/Container/Printable.h"
#include <cmath>
#include <fnmatch.h>
#include <muParser.h>
#include <set>

using namespace binade;

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

namespace {
/// A muParser expression with named variables.
class Expression {
public:
  Expression(const std::string &text, const std::set<std::string> &names) {
    for (const std::string &name : names)
      parser.DefineVar(name, &numbers.try_emplace(name, NAN).first->second);
    parser.DefineConst("none", NAN);
    parser.SetExpr(text);
  }
  void set(const std::string &name, double value) {
    if (auto number = numbers.find(name); number != numbers.end())
      number->second = value;
  }
  void set(const AlarmNumbers &values) {
    for (const auto &[name, value] : values)
      set(name, value);
  }
  double evaluate() const { return parser.Eval(); }
  bool uses(const std::string &name) const {
    return parser.GetUsedVar().contains(name);
  }

private:
  std::map<std::string, double> numbers;
  mu::Parser parser;
};

/// A parsed request for statistics.
struct Request {
  std::vector<std::pair<std::string, std::string>> filters; ///< Kind and glob.
  std::vector<std::string> statistics;
  std::int64_t every = 1;

  bool matches(const AlarmPlace &place) const {
    return std::ranges::any_of(filters, [&](const auto &filter) {
      return (filter.first == "*" || filter.first == place.kind) &&
             ::fnmatch(filter.second.c_str(), place.layer.c_str(), 0) == 0;
    });
  }
};
} // namespace

static std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
  }
  return parts;
}

/// Parses `KIND/GLOB,...:STATISTIC,...@every=N`. Returns nothing if `text` is
/// not a request that the compiler accepts.
static std::optional<Request> parseRequest(const std::string &text) {
  constexpr std::string_view kEvery = "@every=";
  Request request;
  std::size_t at = text.find('@');
  if (at != text.npos) {
    std::string_view suffix = std::string_view(text).substr(at);
    std::optional<std::uint64_t> every;
    if (suffix.starts_with(kEvery))
      every = parseDecimal(suffix.substr(kEvery.size()));
    if (!every || *every == 0 || *every > INT64_MAX)
      return std::nullopt;
    request.every = static_cast<std::int64_t>(*every);
  }
  std::string asked = text.substr(0, at);
  std::size_t colon = asked.rfind(':');
  if (colon == asked.npos)
    return std::nullopt;
  for (const std::string &one : split(asked.substr(0, colon))) {
    std::size_t slash = one.find('/');
    request.filters.emplace_back(
        one.substr(0, slash), slash == one.npos ? "*" : one.substr(slash + 1));
  }
  for (const std::string &one : split(asked.substr(colon + 1))) {
    if (one == "exponents")
      request.statistics.insert(request.statistics.end(),
                                {"highest", "lowest"});
    else
      request.statistics.push_back(one.substr(0, one.find('(')));
  }
  return request;
}

static const std::set<std::string> kMetrics = {
    "loss", "eval_loss", "grad_norm", "loss_scale",
    "lr",   "skipped",   "step",      "calm"};
static const std::set<std::string> kOfWindow = {
    "value", "level", "n",     "count", "total",
    "falls", "idle",  "usual", "slope", "t"};

static std::set<std::string> unite(std::set<std::string> names,
                                   const std::set<std::string> &more) {
  names.insert(more.begin(), more.end());
  return names;
}

//===----------------------------------------------------------------------===//
// One rule
//===----------------------------------------------------------------------===//

class AlarmWatch::Rule {
public:
  explicit Rule(const AlarmRule &rule);

  void observe(const AlarmStep &step, const AlarmNumbers &metrics,
               std::vector<Alarm> &alarms);
  void check() const {
    (void)value.evaluate();
    (void)when.evaluate();
  }
  /// Marks an alarm as raised by an earlier process.
  void recall(const std::string &name, const std::string &where) {
    if (name == rule.name)
      series[where].wasAlarmed = true;
  }

private:
  struct Series {
    AlarmSeries numbers;
    bool wasAlarmed = false;
    /// The step since which `when` has been false; 0 while it is true.
    std::int64_t inactiveSince = 0;
  };

  static std::set<std::string> listStatistics(const std::vector<Request> &);
  double evaluate(const AlarmNumbers &metrics, const AlarmNumbers &statistics);
  /// Returns the requested statistics of a step by the values they belong to.
  std::map<std::string, AlarmNumbers> collect(const AlarmStep &step) const;
  void add(std::int64_t step, const AlarmNumbers &metrics,
           const std::string &where, double number, std::vector<Alarm> &alarms,
           const AlarmNumbers &statistics = {});
  Alarm makeAlarm(std::int64_t step, const std::string &where, double number,
                  const AlarmSeries &series, const AlarmSeries::Line &line);
  std::string show(double number) const;

  AlarmRule rule;
  std::vector<Request> requests;
  Expression value, when;
  std::map<std::string, Series> series;
};

static std::vector<Request> parseAll(const std::vector<std::string> &texts) {
  std::vector<Request> requests;
  for (const std::string &text : texts)
    requests.push_back(parseRequest(text).value_or(Request()));
  return requests;
}

std::set<std::string>
AlarmWatch::Rule::listStatistics(const std::vector<Request> &requests) {
  std::set<std::string> names;
  for (const Request &request : requests)
    names.insert(request.statistics.begin(), request.statistics.end());
  return names;
}

AlarmWatch::Rule::Rule(const AlarmRule &rule)
    : rule(rule), requests(parseAll(rule.watch)),
      value(rule.value, unite(kMetrics, listStatistics(requests))),
      when(rule.when, unite(kMetrics, kOfWindow)) {}

double AlarmWatch::Rule::evaluate(const AlarmNumbers &metrics,
                                  const AlarmNumbers &statistics) {
  for (const std::string &name : listStatistics(requests))
    value.set(name, NAN);
  value.set(metrics);
  value.set(statistics);
  return value.evaluate();
}

std::map<std::string, AlarmNumbers>
AlarmWatch::Rule::collect(const AlarmStep &step) const {
  std::map<std::string, AlarmNumbers> places;
  for (const Request &request : requests) {
    if (step.step % request.every != 0)
      continue;
    for (const AlarmPlace &place : step.places) {
      if (!request.matches(place))
        continue;
      AlarmNumbers &numbers = places[rule.scope == AlarmScope::Layer
                                         ? place.layer
                                         : place.kind + "/" + place.layer];
      for (const std::string &name : request.statistics)
        if (auto found = place.statistics.find(name);
            found != place.statistics.end())
          numbers.insert_or_assign(name, found->second);
    }
  }
  return places;
}

/// Returns the range of exponents of all values: the minimum of `lowest`, and
/// the maximum of each other statistic.
static AlarmNumbers
uniteSpans(const std::map<std::string, AlarmNumbers> &places) {
  AlarmNumbers all;
  for (const auto &[where, numbers] : places)
    for (const auto &[name, number] : numbers) {
      auto [known, isNew] = all.try_emplace(name, number);
      if (!isNew)
        known->second = name == "lowest" ? std::fmin(known->second, number)
                                         : std::fmax(known->second, number);
    }
  return all;
}

void AlarmWatch::Rule::observe(const AlarmStep &step,
                               const AlarmNumbers &metrics,
                               std::vector<Alarm> &alarms) {
  if (requests.empty()) {
    add(step.step, metrics, "", evaluate(metrics, {}), alarms);
    return;
  }
  std::map<std::string, AlarmNumbers> places = collect(step);
  if (places.empty())
    return;
  if (rule.scope == AlarmScope::All) {
    add(step.step, metrics, "", evaluate(metrics, uniteSpans(places)), alarms);
    return;
  }
  constexpr std::size_t kMax = 3;
  std::vector<std::string> counted;
  for (const auto &[where, numbers] : places) {
    double number = evaluate(metrics, numbers);
    if (rule.scope != AlarmScope::Share)
      add(step.step, metrics, where, number, alarms, numbers);
    else if (number != 0 && !std::isnan(number))
      counted.push_back(where);
  }
  if (rule.scope != AlarmScope::Share)
    return;
  std::string where = joinFirst(counted, kMax);
  double share =
      static_cast<double>(counted.size()) / static_cast<double>(places.size());
  // A share is one series; the values that it counts change from step to step.
  std::size_t first = alarms.size();
  add(step.step, metrics, "", share, alarms);
  if (alarms.size() > first)
    alarms.back().where = where;
}

std::string AlarmWatch::Rule::show(double number) const {
  char text[64];
  std::snprintf(text, sizeof(text), rule.isShare ? "%.3g %%" : "%.4g",
                rule.isShare ? 100 * number : number);
  return text;
}

static void replaceAll(std::string &text, std::string_view what,
                       const std::string &by) {
  for (std::size_t at = text.find(what); at != text.npos;
       at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

void AlarmWatch::Rule::add(std::int64_t step, const AlarmNumbers &metrics,
                           const std::string &where, double number,
                           std::vector<Alarm> &alarms,
                           const AlarmNumbers &statistics) {
  if (std::isnan(number))
    return;
  Series &one = series[where];
  AlarmSeries &numbers = one.numbers;
  numbers.add(step, number, rule.window);
  AlarmSeries::Line line = {NAN, NAN, NAN};
  if (rule.forecast || when.uses("slope") || when.uses("t"))
    line = numbers.fit();
  when.set(metrics);
  when.set({{"value", number},
            {"level", rule.level},
            {"n", static_cast<double>(numbers.size())},
            {"count", static_cast<double>(numbers.count(rule.level))},
            {"total", numbers.getSum()},
            {"falls", numbers.getFalls()},
            {"idle", static_cast<double>(numbers.countIdle())},
            {"usual", numbers.getUsual()},
            {"slope", line.slope},
            {"t", line.t}});
  double holds = when.evaluate();
  if (holds == 0 || std::isnan(holds)) {
    if (one.inactiveSince == 0)
      one.inactiveSince = step;
    return;
  }
  bool isNew = !one.wasAlarmed || (one.inactiveSince > 0 &&
                                   step - one.inactiveSince >= rule.window);
  one.wasAlarmed = true;
  one.inactiveSince = 0;
  if (!isNew)
    return;
  Alarm &alarm =
      alarms.emplace_back(makeAlarm(step, where, number, numbers, line));
  for (const auto &[name, own] : statistics)
    replaceAll(alarm.message, "{" + name + "}", show(own));
}

Alarm AlarmWatch::Rule::makeAlarm(std::int64_t step, const std::string &where,
                                  double number, const AlarmSeries &numbers,
                                  const AlarmSeries::Line &line) {
  Alarm alarm;
  alarm.step = step;
  alarm.rule = rule.name;
  alarm.where = where;
  alarm.since =
      when.uses("falls") ? numbers.findFall() : numbers.findSince(rule.level);
  alarm.value = number;
  alarm.message = rule.says;
  replaceAll(alarm.message, "{value}", show(number));
  replaceAll(alarm.message, "{total}", formatNumber(numbers.getSum()));
  replaceAll(alarm.message, "{falls}", formatNumber(numbers.getFalls()));
  // No forecast if the fitted line has reached the level already.
  constexpr double kFar = 1e12;
  if (rule.forecast && line.slope > 0 && line.end < *rule.forecast) {
    double steps = std::ceil((*rule.forecast - line.end) / line.slope);
    if (steps < kFar)
      alarm.forecast = {*rule.forecast,
                        step + static_cast<std::int64_t>(steps)};
  }
  alarm.remedy = rule.remedy;
  alarm.policy = rule.policy;
  replaceAll(
      alarm.policy, "{layer}",
      where.substr(rule.scope == AlarmScope::Each ? where.find('/') + 1 : 0));
  return alarm;
}

//===----------------------------------------------------------------------===//
// All rules
//===----------------------------------------------------------------------===//

AlarmWatch::AlarmWatch(const std::vector<AlarmRule> &texts) {
  for (const AlarmRule &rule : texts)
    rules.push_back(std::make_unique<Rule>(rule));
}
AlarmWatch::AlarmWatch(AlarmWatch &&) noexcept = default;
AlarmWatch &AlarmWatch::operator=(AlarmWatch &&) noexcept = default;
AlarmWatch::~AlarmWatch() = default;

Result<void> AlarmWatch::recall(const std::string &path) {
  return readJsonLines(path, [&](const nlohmann::json &line) {
    for (const auto &rule : rules)
      rule->recall(line.at("rule"), line.at("where"));
  });
}

void AlarmWatch::check() const {
  for (const auto &rule : rules)
    rule->check();
}

std::vector<Alarm> AlarmWatch::observe(const AlarmStep &step) {
  AlarmNumbers metrics = step.metrics;
  metrics["step"] = static_cast<double>(step.step);
  goodInRow = metrics["skipped"] == 0 ? goodInRow + 1 : 0;
  calm = std::max(calm, goodInRow);
  metrics["calm"] = calm;
  std::vector<Alarm> alarms;
  for (const auto &rule : rules)
    rule->observe(step, metrics, alarms);
  return alarms;
}

Result<void> binade::checkAlarmRule(const AlarmRule &rule) {
  for (const std::string &text : rule.watch)
    if (!parseRequest(text))
      return Error{rule.origin,
                   "alarm " + quote(rule.name) +
                       ": not a request for statistics: " + quote(text)};
  try {
    AlarmWatch({rule}).check();
    return {};
  } catch (const mu::ParserError &problem) {
    Error error{rule.origin, "alarm " + quote(rule.name) + ": " +
                                 printable(problem.GetMsg())};
    return std::move(error).withNote("in " + quote(problem.GetExpr()));
  }
}

std::vector<std::string> binade::describe(const Alarm &alarm) {
  std::vector<std::string> lines = {
      "step " + std::to_string(alarm.step) + ": alarm " + alarm.rule + ": " +
      alarm.message +
      (alarm.where.empty() ? "" : " (" + printable(alarm.where) + ")")};
  if (alarm.since != alarm.step)
    lines.front() += ", since step " + std::to_string(alarm.since);
  if (alarm.forecast)
    lines.push_back("at this slope it reaches " +
                    formatNumber(alarm.forecast->level) + " at step " +
                    std::to_string(alarm.forecast->step));
  if (!alarm.remedy.empty())
    lines.push_back("what may help: " + alarm.remedy);
  if (alarm.policy.find('\n') != std::string::npos)
    lines.push_back(
        "as a policy:\n" +
        alarm.policy.substr(0, alarm.policy.find_last_not_of('\n') + 1));
  else if (!alarm.policy.empty())
    lines.push_back("as a policy: --policy " + alarm.policy);
  return lines;
}
