//===- Expectations.h - what records write, for later -----------*- C++ -*-===//
//
// What the CPU computes record by record, and how far another device may be
// off, as a file: whoever has the bundle, the file and a device compares both
// without a compiler. Tensors:
//
//   records      JSON as U8: {"statuses": [[offset, bytes]...], "runs":
//                [[[offset, bytes]...]...], "records": [{"run", "list",
//                "label", "kind", "path", "iteration", "accesses": [{"offset",
//                "bytes", "dtype", "written", "unread"}...]}...]}
//   arena/R      U8: what these places of the arena hold before run R; of the
//                first all of it
//   N/A          U8: what access A of record N has afterwards, if written
//   N/A/low,high U8: the least and the largest number, of the same type, that
//                each element may be, where other bits are right, too; NaN
//                where they are not
//
// What is `unread` is filled with 0xff before the record.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_VERIFICATION_EXPECTATIONS_H
#define BINADE_LIB_VERIFICATION_EXPECTATIONS_H

#include "ReferenceBounds.h"
#include "binade/Runtime/RecordRunner.h"
#include "llvm/Support/JSON.h"
#include <deque>

namespace mlir::binade {

class Expectations {
public:
  /// A list of records begins, in memory with these bytes.
  void begin(Bytes arena);
  /// Executed; what is allowed for `execution` is added by `allow` before.
  void add(const Execution &execution, const ::binade::RecordPlace &place);
  void allow(const RecordAccess &access, size_t index, int64_t element,
             double exact, double bound);
  ::binade::Result<void> write(const std::string &path,
                               const ::binade::Plan &plan,
                               ArrayRef<uint32_t> statuses) const;

private:
  void store(std::string name, Bytes bytes);

  llvm::json::Array runs, records;
  Bytes image; ///< The arena, as far as records say what they write.
  int64_t executions = 0;
  /// Of the record that is being judged, by access: low, then high.
  std::map<size_t, std::pair<std::vector<double>, std::vector<double>>> limits;
  std::deque<Bytes> memory; ///< Stays where it is.
  std::vector<::binade::TensorBytes> tensors;
};

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_EXPECTATIONS_H
