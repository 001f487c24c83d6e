//===- RecordRunner.h - Execution of single records -------------*- C++ -*-===//
// A runner executes a plan record by record and can access the arena between
// any two records, so that two executions of one plan can be compared.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_RECORDRUNNER_H
#define BINADE_RUNTIME_RECORDRUNNER_H

#include "binade/Container/Error.h"
#include "binade/Runtime/RecordList.h"
#include <span>

namespace binade {

/// Identifies one execution of a record other than a loop.
struct RecordPlace {
  RecordList list = RecordList::Step;
  /// The index of the record in the list. For a record in loops: the indices of
  /// the loops, outermost first, then that of the record in the innermost body.
  std::vector<std::size_t> path;
  /// The iteration of each of these loops, outermost first.
  std::vector<std::int64_t> iteration;
};

/// Executes single records of a program. `offset` is in bytes from the start of
/// the plan's arena; the accessed range has to be inside it. Errors are those
/// of the device.
class RecordRunner {
public:
  virtual ~RecordRunner() = default;
  virtual Result<void> read(std::uint64_t offset,
                            std::span<std::byte> into) = 0;
  virtual Result<void> write(std::uint64_t offset,
                             std::span<const std::byte> bytes) = 0;
  /// Executes the record and waits for it. Records in a parallel loop always
  /// use the memory of the loop's first slot.
  virtual Result<void> run(const RecordPlace &place) = 0;
};

} // namespace binade

#endif // BINADE_RUNTIME_RECORDRUNNER_H
