//===- Validate.h - Helpers of plan validation ------------------*- C++ -*-===//

#ifndef BINADE_PLAN_VALIDATE_H
#define BINADE_PLAN_VALIDATE_H

#include "binade/Plan/PlanJson.h"

/// Returns from the function if `expression` is an error.
#define BINADE_CHECK(expression)                                               \
  if (Result<void> checked = (expression); !checked)                           \
  return checked

namespace binade::plan {

/// Limit of sizes, at least the address space of machines; sums of sizes below
/// it do not overflow.
inline constexpr std::uint64_t maxBytes = std::uint64_t(1) << 47;

inline bool isContractionType(DType type) {
  return type == DType::F32 || type == DType::BF16 || type == DType::F16;
}

inline bool isFp8Type(DType type) {
  return type == DType::F8_E4M3 || type == DType::F8_E5M2;
}

/// Returns what is wrong with the numbers of an exchange, and with the types
/// and addresses of its operands, which have to be in bounds; empty if nothing
/// is.
std::string findShapeFault(const Exchange &exchange);
std::string findMemoryFault(const Plan &plan, const Exchange &exchange);

/// Checks that the step starts each bucket once, in order, and then joins them,
/// and that other lists only add.
Result<void> validateExchanges(const Plan &plan, std::string_view where);

/// Returns what is wrong with an attention, except for its operands; empty if
/// nothing is.
std::string findFault(const Attention &attention);

/// Checks the records of a plan whose buffers are valid.
Result<void> validateRecords(const Plan &plan, std::string_view where);

} // namespace binade::plan

#endif // BINADE_PLAN_VALIDATE_H
