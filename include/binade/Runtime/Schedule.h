//===- Schedule.h - Expressions for hyper-parameters ------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_SCHEDULE_H
#define BINADE_RUNTIME_SCHEDULE_H

#include "binade/Container/Error.h"
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace binade {

/// An expression that computes the value of a hyper-parameter before each step,
/// in f64. It may use the variables
///   base    the value without a schedule,
///   step    the number of steps before this one, including skipped ones,
///   steps   the number of steps of the run,
/// arithmetic (+ - * / ^), comparisons, `c ? a : b`, the functions of muParser
/// (min, max, sqrt, exp, ln, cos, ...), and
///   warmup(t, n)              (t + 1) / n, at most 1
///   linear(t, n)              from 1 at t = 0 to 0 at t = n
///   cosine(t, n)              from 1 at t = 0 to 0 at t = n, as half a cosine
///   cycle(t, n, f)            position of t in its cycle, scaled to 0 .. n;
///                             cycles have n, n f, n f^2, ... steps
///   piecewise(t, v, t1, v1, ...)          v, from t1 on v1, ...
///   interpolate(t, t0, v0, t1, v1, ...)   linear interpolation between points
/// Outside of the given range of `t` these functions keep the value of the
/// nearer end. ceil(x) rounds up.
class Schedule {
public:
  /// Parses `NAME=EXPRESSION`, or `NAME=@FILE` with the expression in a file,
  /// whose lines may end in a comment after `#`. The expression may be a named
  /// schedule (see NamedSchedules.h), which without `NAME=` is that of `lr`.
  /// `warmup` is the number of steps of a linear warm-up, as an expression, if
  /// NAME is the learning rate; empty for none. Errors give the position in the
  /// expression; their exit code is 2, or 3 for a file.
  static Result<Schedule> parse(std::string_view text,
                                std::string_view warmup = "");

  const std::string &getName() const { return name; }
  const std::string &getExpression() const { return expression; }
  /// Whether the values depend on the number of steps of the run.
  bool usesSteps() const;
  double evaluate(std::int64_t step, std::int64_t steps, double base) const;

  Schedule(Schedule &&) noexcept;
  Schedule &operator=(Schedule &&) noexcept;
  ~Schedule();

private:
  struct Parser;
  explicit Schedule(std::unique_ptr<Parser> parser);
  std::optional<Error> setExpression(std::string text);

  std::string name, expression;
  std::unique_ptr<Parser> parser;
};

/// Parses the values of `--schedule`, and `warmup`, the value of `--warmup`,
/// which may be empty. A warm-up without a schedule of `lr` is one of its own.
Result<std::vector<Schedule>> parseSchedules(std::span<const std::string> texts,
                                             std::string_view warmup);

} // namespace binade

#endif // BINADE_RUNTIME_SCHEDULE_H
