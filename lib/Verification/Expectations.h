//===- Expectations.h - Expected results in a file --------------*- C++ -*-===//
//
// A file with the results of each record on the CPU and the allowed ranges for
// other devices. With the bundle and this file, the results of a device can be
// checked without a compiler. Tensors:
//
//   records      JSON as U8: {"statuses": [[offset, bytes]...], "runs":
//                [[[offset, bytes]...]...], "records": [{"run", "list",
//                "label", "kind", "path", "iteration", "accesses": [{"offset",
//                "bytes", "dtype", "written", "unread"}...]}...]}
//   arena/R      U8: the bytes of the arena in the ranges of run R before it;
//                for the first run, the whole arena
//   N/A          U8: the bytes of access A after record N, if it is written
//   N/A/low,high U8: the smallest and largest allowed value of each element, in
//                its type, if results may differ from the CPU's; NaN for
//                elements that may not
//
// Accesses that are `unread` are filled with 0xff before the record.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_VERIFICATION_EXPECTATIONS_H
#define BINADE_LIB_VERIFICATION_EXPECTATIONS_H

#include "ReferenceBounds.h"
#include "binade/Runtime/RecordRunner.h"
#include "llvm/Support/JSON.h"
#include <deque>

namespace mlir::binade {

/// Collects the expected results of records and writes them to a file.
class Expectations {
public:
  /// Starts a run of a record list with the given contents of the arena.
  void begin(Bytes arena);
  /// Adds the results of a record, after `allow` for each of its elements that
  /// may differ.
  void add(const Execution &execution, const ::binade::RecordPlace &place);
  void allow(const RecordAccess &access, size_t index, int64_t element,
             double exact, double bound);
  ::binade::Result<void> write(const std::string &path,
                               const ::binade::Plan &plan,
                               ArrayRef<uint32_t> statuses) const;

private:
  void store(std::string name, Bytes bytes);

  llvm::json::Array runs, records;
  Bytes image; ///< The arena after the results of the records so far.
  int64_t executions = 0;
  /// The allowed ranges of the current record by access: low, then high.
  std::map<size_t, std::pair<std::vector<double>, std::vector<double>>> limits;
  std::deque<Bytes> memory; ///< Bytes of `tensors`; addresses are stable.
  std::vector<::binade::TensorBytes> tensors;
};

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_EXPECTATIONS_H
