//===- Schedule.cpp - Expressions for hyper-parameters --------------------===//

#include "binade/Runtime/Schedule.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Runtime/NamedSchedules.h"
#include <algorithm>
#include <cmath>
#include <muParser.h>
#include <numbers>

using namespace binade;

/// The hyper-parameter that named schedules and warm-up are for.
static constexpr std::string_view kRate = "lr";

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static double warmup(double t, double n) {
  return std::clamp((t + 1) / n, 0.0, 1.0);
}

/// Returns t / n in [0, 1]: 0 before the start, for any `n`.
static double progress(double t, double n) {
  return t <= 0 ? 0 : std::clamp(t / n, 0.0, 1.0);
}

static double linear(double t, double n) { return 1 - progress(t, n); }

static double cosine(double t, double n) {
  return 0.5 * (1 + std::cos(std::numbers::pi * progress(t, n)));
}

static double ceiling(double x) { return std::ceil(x); }

static double cycle(double t, double n, double factor) {
  t = std::max(t, 0.0);
  if (factor == 1)
    return std::fmod(t, n);
  // Cycle i begins at n (f^i - 1) / (f - 1).
  double number =
      std::floor(std::log1p(t / n * (factor - 1)) / std::log(factor));
  auto begin = [&](double i) {
    return n * (std::pow(factor, i) - 1) / (factor - 1);
  };
  // The logarithm may be off by one at a boundary.
  if (t >= begin(number + 1))
    ++number;
  if (t < begin(number))
    --number;
  return (t - begin(number)) / std::pow(factor, number);
}

/// Checks that `points` of a function of (t, ...) are in increasing order.
static void checkPoints(const double *points, int count, int first) {
  for (int i = first + 2; i < count; i += 2)
    if (!(points[i] > points[i - 2]))
      throw mu::ParserError("steps have to increase");
}

static double piecewise(const double *arguments, int count) {
  if (count < 2 || count % 2 != 0)
    throw mu::ParserError("piecewise(t, v, t1, v1, ...) has an even number of "
                          "arguments");
  checkPoints(arguments, count, 2);
  int last = 1;
  while (last + 2 < count && arguments[0] >= arguments[last + 1])
    last += 2;
  return arguments[last];
}

static double interpolate(const double *arguments, int count) {
  if (count < 3 || count % 2 != 1)
    throw mu::ParserError("interpolate(t, t0, v0, t1, v1, ...) has an odd "
                          "number of arguments, three or more");
  checkPoints(arguments, count, 1);
  double t = arguments[0];
  if (t <= arguments[1])
    return arguments[2];
  for (int i = 3; i < count; i += 2) {
    double begin = arguments[i - 2], end = arguments[i];
    if (t <= end)
      return std::lerp(arguments[i - 1], arguments[i + 1],
                       (t - begin) / (end - begin));
  }
  return arguments[count - 1];
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

struct Schedule::Parser {
  Parser() {
    parser.DefineVar("base", &base);
    parser.DefineVar("step", &step);
    parser.DefineVar("steps", &steps);
    parser.DefineFun("warmup", warmup);
    parser.DefineFun("linear", linear);
    parser.DefineFun("cosine", cosine);
    parser.DefineFun("cycle", cycle);
    parser.DefineFun("piecewise", piecewise);
    parser.DefineFun("interpolate", interpolate);
    parser.DefineFun("ceil", ceiling);
  }

  double base = 1, step = 0, steps = 1;
  mu::Parser parser;
};

Schedule::Schedule(std::unique_ptr<Parser> parser)
    : parser(std::move(parser)) {}
Schedule::Schedule(Schedule &&) noexcept = default;
Schedule &Schedule::operator=(Schedule &&) noexcept = default;
Schedule::~Schedule() = default;

static std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos)
    return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// Returns the lines of a file without comments, joined by spaces.
static Result<std::string> readExpression(const std::string &path) {
  constexpr std::uint64_t kMaxBytes = 1 << 20;
  Result<ExternalFile> file = openFile(path);
  if (!file)
    return file.takeError();
  Result<std::string> text = readText(*file, kMaxBytes);
  if (!text)
    return text.takeError();
  std::string joined;
  for (std::string_view rest = *text; !rest.empty();) {
    std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    line = trim(line.substr(0, line.find('#')));
    if (!line.empty())
      joined += (joined.empty() ? "" : " ") + std::string(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return joined;
}

/// Sets and parses the expression; returns what is wrong with it.
std::optional<Error> Schedule::setExpression(std::string text) {
  expression = std::move(text);
  Error error;
  try {
    mu::Parser &expressions = parser->parser;
    expressions.SetExpr(expression);
    int results = 0;
    expressions.Eval(results);
    if (results == 1)
      return std::nullopt;
    error.message = std::to_string(results) + " expressions, expected one";
  } catch (const mu::ParserError &problem) {
    error.message = printable(problem.GetMsg());
    if (auto place = static_cast<std::size_t>(problem.GetPos());
        place <= expression.size())
      error = std::move(error).withNote(
          "at " + quote(expression.substr(place)) + " of " + quote(expression));
  }
  return error;
}

/// Whether `name` is the learning rate, of all parameters or of a group.
static bool isRate(std::string_view name) {
  return name == kRate ||
         (name.starts_with(kRate) && name[kRate.size()] == '@');
}

Result<Schedule> Schedule::parse(std::string_view text,
                                 std::string_view warmup) {
  std::size_t equals = text.find('=');
  std::string_view name = trim(text.substr(0, equals));
  std::string_view value =
      equals == text.npos ? "" : trim(text.substr(equals + 1));
  // The name of a hyper-parameter has no ':'.
  if (std::string_view whole = trim(text); looksLikeNamedSchedule(whole)) {
    if (!isNamedSchedule(whole))
      return expandNamedSchedule(whole, warmup).takeError();
    name = kRate;
    value = whole;
  }
  if (name.empty() || value.empty())
    return Error{"--schedule",
                 "expected NAME=EXPRESSION, NAME=@FILE or the name of a "
                 "schedule, got " +
                     quote(text),
                 ExitCode::Usage}
        .withNote("'binade list schedules' explains " + joinScheduleNames());
  if (!isRate(name))
    warmup = "";
  Schedule schedule(std::make_unique<Parser>());
  schedule.name = name;
  bool isNamed = isNamedSchedule(value);
  std::string where = "--schedule " + printable(name);
  int exitCode = ExitCode::Usage;
  Result<std::string> expression = std::string(value);
  if (isNamed) {
    expression = expandNamedSchedule(value, warmup);
  } else if (value.starts_with('@')) {
    std::string path(trim(value.substr(1)));
    expression = readExpression(path);
    where = printable(path);
    exitCode = ExitCode::Rejected;
  }
  if (!expression)
    return expression.takeError();
  if (std::optional<Error> error =
          schedule.setExpression(*std::move(expression))) {
    // The misspelled name of a schedule is not an expression.
    if (looksLikeNamedSchedule(value))
      return expandNamedSchedule(value, warmup).takeError();
    error->where = where;
    error->exitCode = exitCode;
    return *std::move(error);
  }
  if (!isNamed && !warmup.empty())
    (void)schedule.setExpression(makeWarmupFactor(warmup) + " * (" +
                                 schedule.expression + ")");
  return schedule;
}

Result<std::vector<Schedule>>
binade::parseSchedules(std::span<const std::string> texts,
                       std::string_view warmup) {
  Result<std::string> steps = std::string();
  if (!warmup.empty())
    steps = parseStepCount("--warmup", warmup);
  if (!steps)
    return steps.takeError();
  std::vector<Schedule> schedules;
  auto add = [&](std::string_view text) -> Result<void> {
    Result<Schedule> schedule = Schedule::parse(text, *steps);
    if (!schedule)
      return schedule.takeError();
    schedules.push_back(*std::move(schedule));
    return {};
  };
  for (const std::string &text : texts)
    if (Result<void> added = add(text); !added)
      return added.takeError();
  bool hasRate = std::ranges::any_of(schedules, [](const Schedule &schedule) {
    return schedule.getName() == kRate;
  });
  if (!steps->empty() && !hasRate)
    if (Result<void> added = add("constant"); !added)
      return added.takeError();
  return schedules;
}

bool Schedule::usesSteps() const {
  return parser->parser.GetUsedVar().contains("steps");
}

double Schedule::evaluate(std::int64_t step, std::int64_t steps,
                          double base) const {
  parser->step = static_cast<double>(step);
  parser->steps = static_cast<double>(steps);
  parser->base = base;
  return parser->parser.Eval();
}
