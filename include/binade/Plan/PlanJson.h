//===- PlanJson.h - Plans as JSON, and their validation ---------*- C++ -*-===//

#ifndef BINADE_PLAN_PLANJSON_H
#define BINADE_PLAN_PLANJSON_H

#include "binade/Container/Error.h"
#include "binade/Plan/Plan.h"

namespace binade {

/// Of the JSON form; a plan of another version is rejected.
inline constexpr int kPlanVersion = 1;

/// Checks everything that the runtime relies on: indices, shapes, that every
/// view of every iteration stays inside its buffer and every buffer inside the
/// arena, types, unique ports. `where` names the plan in messages; `part` of
/// the error is the buffer, port or record.
Result<void> validate(const Plan &plan, std::string_view where);

/// Reads and validates. Unknown keys are errors.
Result<Plan> readPlan(std::string_view json, std::string_view where);

/// Writes a valid plan; `readPlan` gives it back.
std::string writePlan(const Plan &plan);

/// The part of a plan that says what states in files stand for.
std::string
writeQuantizedStates(const std::vector<plan::QuantizedStates> &states);
Result<std::vector<plan::QuantizedStates>>
readQuantizedStates(std::string_view json, std::string_view where);

} // namespace binade

#endif // BINADE_PLAN_PLANJSON_H
