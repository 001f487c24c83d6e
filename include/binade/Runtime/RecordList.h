//===- RecordList.h - Record lists of a plan --------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_RECORDLIST_H
#define BINADE_RUNTIME_RECORDLIST_H

#include "binade/Plan/Plan.h"

namespace binade {

/// The record lists of a plan. `Observation` is the step with the statistics
/// that are not due in every step.
enum class RecordList : std::uint8_t {
  Step,
  Accumulation,
  Evaluation,
  Observation,
};
inline constexpr std::array kRecordLists = {
    RecordList::Step, RecordList::Accumulation, RecordList::Evaluation,
    RecordList::Observation};
inline constexpr std::size_t kNumRecordLists = kRecordLists.size();
static_assert(kNumRecordLists == plan::kNumRecordLists);

inline std::string_view name(RecordList list) {
  constexpr std::string_view names[] = {"step", "accumulation", "evaluation",
                                        "observation"};
  return names[static_cast<std::size_t>(list)];
}

inline const std::vector<plan::Record> &getRecords(const Plan &plan,
                                                   RecordList list) {
  return *plan.getLists()[static_cast<std::size_t>(list)];
}

} // namespace binade

#endif // BINADE_RUNTIME_RECORDLIST_H
