//===- RecordList.h - Which records of a plan -------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_RECORDLIST_H
#define BINADE_RUNTIME_RECORDLIST_H

#include "binade/Plan/Plan.h"

namespace binade {

/// The programs of a plan.
enum class RecordList : std::uint8_t { Step, Accumulation, Evaluation };
inline constexpr std::size_t kNumRecordLists = 3;

inline std::string_view name(RecordList list) {
  constexpr std::string_view names[] = {"step", "accumulation", "evaluation"};
  return names[static_cast<std::size_t>(list)];
}

inline const std::vector<plan::Record> &getRecords(const Plan &plan,
                                                   RecordList list) {
  const std::vector<plan::Record> *lists[] = {&plan.records, &plan.accumulation,
                                              &plan.evaluation};
  return *lists[static_cast<std::size_t>(list)];
}

} // namespace binade

#endif // BINADE_RUNTIME_RECORDLIST_H
