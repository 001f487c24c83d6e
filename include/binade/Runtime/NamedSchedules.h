//===- NamedSchedules.h - Schedules with a name -----------------*- C++ -*-===//
// Common learning-rate schedules. A name is replaced by an expression (see
// Schedule.h), so that a run knows only expressions.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_NAMEDSCHEDULES_H
#define BINADE_RUNTIME_NAMEDSCHEDULES_H

#include "binade/Container/Error.h"
#include <vector>

namespace binade {

/// A named schedule as `binade list schedules` prints it.
struct NamedSchedule {
  std::string name, summary;
  std::string parameters; ///< With default values, such as "min_lr=0".
  /// What replaces it by default, without and with a warm-up over W steps.
  std::string expression, withWarmup;
  std::string equals; ///< The function of another library with its values.
};
std::vector<NamedSchedule> listNamedSchedules();

/// Returns the names, separated by commas.
std::string joinScheduleNames();

/// Whether `text` is a name, alone or with parameters, such as `cosine` or
/// `cosine:min_lr=0.1`. There need not be a schedule of this name.
bool looksLikeNamedSchedule(std::string_view text);
/// Whether there is a schedule of the name in `text`.
bool isNamedSchedule(std::string_view text);

/// Returns the expression for `text`, a name with parameters. `warmup` is the
/// number of steps of a linear warm-up, as an expression; empty for none.
Result<std::string> expandNamedSchedule(std::string_view text,
                                        std::string_view warmup);

/// Returns the expression of a number of steps: `100`, or `5%` of the steps of
/// the run, rounded up. Returns an empty text for 0.
Result<std::string> parseStepCount(std::string_view what,
                                   std::string_view text);

/// Returns the factor of a linear warm-up over `steps`: 0 in the first step, 1
/// after that many steps.
std::string makeWarmupFactor(std::string_view steps);

} // namespace binade

#endif // BINADE_RUNTIME_NAMEDSCHEDULES_H
