//===- RecordRunner.h - A plan, record by record ----------------*- C++ -*-===//
// For who compares two executions of one plan: memory can be read and written
// between any two records.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_RECORDRUNNER_H
#define BINADE_RUNTIME_RECORDRUNNER_H

#include "binade/Container/Error.h"
#include "binade/Runtime/RecordList.h"
#include <span>

namespace binade {

/// One execution of a record that is no loop.
struct RecordPlace {
  RecordList list = RecordList::Step;
  /// Its number in the list, or that of the loop that it is in; in the loop's
  /// body, and so on.
  std::vector<std::size_t> path;
  std::vector<std::int64_t> iteration; ///< Of these loops, outermost first.
};

/// Memory is the arena of the plan: `offset` counts its bytes, and what is
/// asked for lies inside. Errors are those of devices.
class RecordRunner {
public:
  virtual ~RecordRunner() = default;
  virtual Result<void> read(std::uint64_t offset,
                            std::span<std::byte> into) = 0;
  virtual Result<void> write(std::uint64_t offset,
                             std::span<const std::byte> bytes) = 0;
  /// Returns when the record has been executed. A loop whose iterations run at
  /// the same time otherwise has one slot here.
  virtual Result<void> run(const RecordPlace &place) = 0;
};

} // namespace binade

#endif // BINADE_RUNTIME_RECORDRUNNER_H
