//===- NamedSchedules.cpp - Schedules with a name -------------------------===//

#include "binade/Runtime/NamedSchedules.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/Numbers.h"
#include "binade/Container/Printable.h"
#include "binade/Container/Suggest.h"
#include <algorithm>
#include <map>

using namespace binade;

namespace {
/// A parameter of a named schedule with its default value.
struct Parameter {
  const char *name, *value;
  /// The values that are accepted. A number of steps, such as 100 or 20%, has
  /// no range.
  std::optional<NumberRange> range;
};

/// Values of parameters, as text in an expression.
using Values = std::map<std::string, std::string, std::less<>>;

/// The two names of the minimum: as a value, or as a ratio to the base value.
constexpr const char *kMin = "min_lr", *kRatio = "min_lr_ratio";

struct Entry {
  const char *name, *summary, *equals;
  std::vector<Parameter> parameters;
  /// Builds the expression. `warmup` is an expression or empty.
  std::string (*expand)(const Values &values, const std::string &warmup);
};
} // namespace

//===----------------------------------------------------------------------===//
// Parts of expressions
//===----------------------------------------------------------------------===//

static bool has(const Values &values, std::string_view name) {
  auto found = values.find(name);
  return found != values.end() && std::stod(found->second) != 0;
}

static std::string complement(const std::string &number) {
  return formatNumber(1 - std::stod(number));
}

/// Returns an expression that is 1 where `factor` is 1, and `low` where it is
/// 0.
static std::string from(const std::string &low, const std::string &factor) {
  return "(" + low + " + " + complement(low) + " * " + factor + ")";
}

/// Returns the rate that is `base` where `factor` is 1, and the minimum where
/// it is 0. A base value below the minimum stays.
static std::string scale(const Values &values, const std::string &factor) {
  if (has(values, kRatio))
    return "base * " + from(values.find(kRatio)->second, factor);
  if (!has(values, kMin))
    return "base * " + factor;
  const std::string &low = values.find(kMin)->second;
  return "(min(base, " + low + ") + max(base - " + low + ", 0) * " + factor +
         ")";
}

/// Returns `rate` after a warm-up, which may be empty.
static std::string warmUp(const std::string &warmup, const std::string &rate) {
  return warmup.empty() ? rate : makeWarmupFactor(warmup) + " * " + rate;
}

/// Returns `FUNCTION(t, n)` for the steps after the warm-up.
static std::string decay(const char *function, const std::string &warmup) {
  std::string minus = warmup.empty() ? "" : " - " + warmup;
  return std::string(function) + "(step" + minus + ", steps" + minus + ")";
}

//===----------------------------------------------------------------------===//
// The schedules
//===----------------------------------------------------------------------===//

static std::string expandConstant(const Values &, const std::string &warmup) {
  return warmUp(warmup, "base");
}

static std::string expandLinear(const Values &values,
                                const std::string &warmup) {
  return warmUp(warmup, scale(values, decay("linear", warmup)));
}

static std::string expandCosine(const Values &values,
                                const std::string &warmup) {
  return warmUp(warmup, scale(values, decay("cosine", warmup)));
}

static std::string expandPolynomial(const Values &values,
                                    const std::string &warmup) {
  std::string shape = decay("linear", warmup);
  if (const std::string &power = values.at("power"); power != "1")
    shape += " ^ " + power;
  return warmUp(warmup, scale(values, shape));
}

/// The warm-up starts from the minimum, as in transformers.
static std::string expandWsd(const Values &values, const std::string &warmup) {
  const std::string &steps = values.at("decay");
  std::string shape = "1";
  if (!steps.empty())
    shape = "cosine(step + " + steps + " - steps, " + steps + ")";
  return scale(values, warmUp(warmup, shape));
}

/// The rise takes the steps of the warm-up. The last step has the lowest value.
static std::string expandOneCycle(const Values &values,
                                  const std::string &warmup) {
  std::string rise = warmup.empty() ? "0.3 * steps" : warmup;
  double divisor = std::stod(values.at("div_factor"));
  std::string start = formatNumber(1 / divisor);
  std::string end =
      formatNumber(1 / divisor / std::stod(values.at("final_div_factor")));
  return "step < " + rise + " - 1 ? base * (1 - " + complement(start) +
         " * cosine(step, " + rise + " - 1)) : base * " +
         from(end, "cosine(step + 1 - " + rise + ", steps - " + rise + ")");
}

static const std::vector<Entry> &getEntries() {
  const NumberRange positive = {.min = 0}, atLeastOne = {.min = 1};
  const Parameter ratio = {kRatio, "0", NumberRange{.min = 0, .max = 1}};
  auto minimum = [&](const char *value) {
    return Parameter{kMin, value, positive};
  };
  static const std::vector<Entry> entries = {
      {"constant",
       "the base value",
       "transformers' get_constant_schedule and "
       "get_constant_schedule_with_warmup",
       {},
       expandConstant},
      {"linear",
       "linear decay from the base value to the minimum",
       "transformers' get_linear_schedule_with_warmup; PyTorch's LinearLR with "
       "start_factor=1",
       {minimum("0"), ratio},
       expandLinear},
      {"cosine",
       "half a cosine from the base value to the minimum",
       "transformers' get_cosine_schedule_with_warmup and "
       "get_cosine_with_min_lr_schedule_with_warmup; PyTorch's "
       "CosineAnnealingLR",
       {minimum("0"), ratio},
       expandCosine},
      {"polynomial",
       "a power of a line from the base value to the minimum",
       "transformers' get_polynomial_decay_schedule_with_warmup, where the "
       "minimum is called lr_end; with min_lr=0 PyTorch's PolynomialLR",
       {{"power", "1", positive}, minimum("1e-07"), ratio},
       expandPolynomial},
      {"wsd",
       "warm-up, stable, decay: the base value, then half a cosine to the "
       "minimum over the last steps, whose number is 'decay'",
       "transformers' get_wsd_schedule",
       {{"decay", "20%", std::nullopt}, minimum("0"), ratio},
       expandWsd},
      {"one-cycle",
       "half a cosine from 1 / 'div_factor' of the base value up to that value "
       "over the steps of the warm-up, by default 30% of all, and another one "
       "down to 1 / 'final_div_factor' of the start",
       "PyTorch's OneCycleLR with cycle_momentum=False",
       {{"div_factor", "25", atLeastOne},
        {"final_div_factor", "10000", atLeastOne}},
       expandOneCycle},
  };
  return entries;
}

//===----------------------------------------------------------------------===//
// Names and parameters
//===----------------------------------------------------------------------===//

static std::string_view getName(std::string_view text) {
  return text.substr(0, text.find(':'));
}

static const Entry *find(std::string_view name) {
  const std::vector<Entry> &entries = getEntries();
  auto found = std::ranges::find_if(
      entries, [&](const Entry &entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

bool binade::looksLikeNamedSchedule(std::string_view text) {
  auto isLetter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  std::string_view name = getName(text);
  return !name.empty() && isLetter(name.front()) &&
         std::ranges::all_of(name, [&](char c) {
           return isLetter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_';
         });
}

bool binade::isNamedSchedule(std::string_view text) {
  return find(getName(text)) != nullptr;
}

std::string binade::joinScheduleNames() {
  std::string joined;
  for (const Entry &entry : getEntries())
    joined += (joined.empty() ? "" : ", ") + std::string(entry.name);
  return joined;
}

static Error fail(std::string where, std::string message) {
  return {std::move(where), std::move(message), ExitCode::Usage};
}

Result<std::string> binade::parseStepCount(std::string_view what,
                                           std::string_view text) {
  bool isPercent = text.ends_with('%');
  std::string number(text.substr(0, text.size() - isPercent));
  char *end;
  double value = std::strtod(number.c_str(), &end);
  bool isNumber = !number.empty() && !*end && value >= 0;
  if (isPercent ? !isNumber || value > 100 : !parseDecimal(number))
    return fail(std::string(what),
                "expected a number of steps such as 100, or "
                "a percentage of all steps such as 5%, got " +
                    quote(text));
  if (value == 0)
    return std::string();
  return isPercent ? "ceil(" + formatNumber(value) + " * steps / 100)"
                   : formatNumber(value);
}

std::string binade::makeWarmupFactor(std::string_view steps) {
  return "min(1, step / " + std::string(steps) + ")";
}

/// Returns the value of a parameter as text in an expression.
static Result<std::string> readValue(const std::string &where,
                                     const Parameter &parameter,
                                     std::string_view text) {
  if (!parameter.range)
    return parseStepCount(where + ": " + parameter.name, text);
  std::string number(text);
  char *end;
  double value = std::strtod(number.c_str(), &end);
  if (number.empty() || *end)
    return fail(where, std::string(parameter.name) +
                           ": expected a number, got " + quote(text));
  std::string wrong = parameter.range->explainViolation(parameter.name, value);
  if (!wrong.empty())
    return fail(where, wrong);
  return formatNumber(value);
}

static std::string describeParameters(const Entry &entry) {
  std::string text;
  for (const Parameter &parameter : entry.parameters)
    text += (text.empty() ? "" : ",") + std::string(parameter.name) + "=" +
            parameter.value;
  return text;
}

/// Returns the parameter in `KEY=VALUE`.
static Result<const Parameter *> findParameter(const std::string &where,
                                               const Entry &entry,
                                               std::string_view assignment) {
  std::size_t equals = assignment.find('=');
  std::string_view key = assignment.substr(0, equals);
  std::vector<std::string> names;
  for (const Parameter &parameter : entry.parameters) {
    if (equals != assignment.npos && parameter.name == key)
      return &parameter;
    names.emplace_back(parameter.name);
  }
  return fail(where,
              equals == assignment.npos
                  ? "expected KEY=VALUE after ':', got " + quote(assignment)
                  : "has no parameter " + quote(key) + suggest(key, names))
      .withNote(names.empty()
                    ? "it has no parameters"
                    : "its parameters are " + describeParameters(entry));
}

/// Reads the parameters `KEY=VALUE,...` of a schedule.
static Result<Values> readValues(const Entry &entry, std::string_view text) {
  std::string where = std::string("--schedule ") + entry.name;
  Values values, given;
  for (const Parameter &parameter : entry.parameters)
    values[parameter.name] = *readValue(where, parameter, parameter.value);
  while (!text.empty()) {
    std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    Result<const Parameter *> parameter = findParameter(where, entry, one);
    if (!parameter)
      return parameter.takeError();
    Result<std::string> value =
        readValue(where, **parameter, one.substr(one.find('=') + 1));
    if (!value)
      return value.takeError();
    values[(*parameter)->name] = given[(*parameter)->name] = *std::move(value);
  }
  if (given.contains(kMin) && given.contains(kRatio))
    return fail(where, std::string(kMin) + " and " + kRatio +
                           " cannot be used together");
  if (given.contains(kRatio))
    values.erase(kMin);
  return values;
}

Result<std::string> binade::expandNamedSchedule(std::string_view text,
                                                std::string_view warmup) {
  std::string_view name = getName(text);
  const Entry *entry = find(name);
  if (!entry) {
    std::vector<std::string> names;
    for (const Entry &known : getEntries())
      names.emplace_back(known.name);
    return fail("--schedule",
                "no schedule is called " + quote(name) + suggest(name, names))
        .withNote("there are " + joinScheduleNames() +
                  " ('binade list schedules'), and expressions: "
                  "NAME=EXPRESSION or NAME=@FILE, such as 'lr=base * "
                  "cosine(step, steps)'");
  }
  Result<Values> values =
      readValues(*entry, text.substr(std::min(name.size() + 1, text.size())));
  if (!values)
    return values.takeError();
  return entry->expand(*values, std::string(warmup));
}

std::vector<NamedSchedule> binade::listNamedSchedules() {
  std::vector<NamedSchedule> list;
  for (const Entry &entry : getEntries())
    list.push_back({entry.name, entry.summary, describeParameters(entry),
                    *expandNamedSchedule(entry.name, ""),
                    *expandNamedSchedule(entry.name, "W"), entry.equals});
  return list;
}
