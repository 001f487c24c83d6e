//===- PlanJson.h - JSON form and validation of plans -----------*- C++ -*-===//

#ifndef BINADE_PLAN_PLANJSON_H
#define BINADE_PLAN_PLANJSON_H

#include "binade/Container/Error.h"
#include "binade/Plan/Plan.h"

namespace binade {

/// Version of the JSON form; plans of other versions are rejected.
inline constexpr int kPlanVersion = 1;

/// Checks everything that the runtime relies on: indices, shapes, types, unique
/// ports, that views stay in their buffers in every iteration, and buffers in
/// the arena. `where` names the plan in messages; `part` of the error is the
/// buffer, port or record.
Result<void> validate(const Plan &plan, std::string_view where);

/// Reads and validates a plan. Unknown keys are errors.
Result<Plan> readPlan(std::string_view json, std::string_view where);

/// Returns a valid plan as JSON that `readPlan` reads.
std::string writePlan(const Plan &plan);

/// Returns quantized states as JSON, as files and plans contain them.
std::string
writeQuantizedStates(const std::vector<plan::QuantizedStates> &states);
Result<std::vector<plan::QuantizedStates>>
readQuantizedStates(std::string_view json, std::string_view where);

} // namespace binade

#endif // BINADE_PLAN_PLANJSON_H
