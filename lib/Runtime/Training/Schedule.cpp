//===- Schedule.cpp - Expressions for hyper-parameters --------------------===//

#include "binade/Runtime/Schedule.h"
#include "binade/Container/ExternalFile.h"
#include <algorithm>
#include <cmath>
#include <muParser.h>
#include <numbers>

using namespace binade;

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static double warmup(double t, double n) {
  return std::clamp((t + 1) / n, 0.0, 1.0);
}

static double linear(double t, double n) {
  return 1 - std::clamp(t / n, 0.0, 1.0);
}

static double cosine(double t, double n) {
  return 0.5 * (1 + std::cos(std::numbers::pi * std::clamp(t / n, 0.0, 1.0)));
}

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

Result<Schedule> Schedule::parse(std::string_view text) {
  std::size_t equals = text.find('=');
  std::string_view name = trim(text.substr(0, equals));
  std::string_view value =
      equals == text.npos ? "" : trim(text.substr(equals + 1));
  if (name.empty() || value.empty())
    return Error{"--schedule",
                 "expected NAME=EXPRESSION or NAME=@FILE, got " + quote(text),
                 ExitCode::Usage};
  Error error{"--schedule " + printable(name), "", ExitCode::Usage};
  Schedule schedule(std::make_unique<Parser>());
  schedule.name = name;
  schedule.expression = value;
  if (value.starts_with('@')) {
    std::string path(trim(value.substr(1)));
    Result<std::string> expression = readExpression(path);
    if (!expression)
      return expression.takeError();
    schedule.expression = *std::move(expression);
    error.where = printable(path);
    error.exitCode = ExitCode::Rejected;
  }
  try {
    mu::Parser &parser = schedule.parser->parser;
    parser.SetExpr(schedule.expression);
    int results = 0;
    parser.Eval(results);
    if (results == 1)
      return schedule;
    error.message = std::to_string(results) + " expressions, expected one";
  } catch (const mu::ParserError &problem) {
    error.message = printable(problem.GetMsg());
    if (auto place = static_cast<std::size_t>(problem.GetPos());
        place <= schedule.expression.size())
      error = std::move(error).withNote(
          "at " + quote(schedule.expression.substr(place)) + " of " +
          quote(schedule.expression));
  }
  return error;
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
