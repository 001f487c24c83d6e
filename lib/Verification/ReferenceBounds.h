//===- ReferenceBounds.h - Error bounds of records --------------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_REFERENCEBOUNDS_H
#define BINADE_LIB_VERIFICATION_REFERENCEBOUNDS_H

#include "Accesses.h"
#include "Compare.h"
#include "binade/Container/Error.h"
#include "binade/Reference/Interpreter.h"

namespace mlir::binade {

/// An execution of a record: its `accesses` from `listAccesses`, and the bytes
/// of each before and after.
struct Execution {
  const ::binade::plan::Record &record;
  SmallVector<RecordAccess, 0> accesses;
  std::vector<Bytes> before, after;
  /// If set, `judge` calls it for each element that may differ, with the
  /// access, the element's index, the exact result and its bound. No elements
  /// are skipped then.
  std::function<void(size_t, int64_t, double, double)> onBound = {};
};

/// Whether a launch writes access `index` and reads none of its bytes.
bool isOnlyWritten(const Execution &execution, size_t index);

/// The element with the largest difference relative to its bound.
struct Judgement {
  double ratio = 0; ///< Difference / bound; at most 1 if all are correct.
  /// The difference if it exceeds the bound, in access `access`.
  std::optional<Difference> difference;
  size_t access = 0;

  /// Adds the deviation of element `deviation.index` of access `index`, which
  /// is `value` instead of `expected`.
  void add(size_t index, ::binade::DType dtype, const Deviation &deviation,
           double value, double expected);
};

/// Whether the record contains sums, whose order depends on the target, so that
/// results may differ.
bool mayDiffer(ModuleOp source, const ::binade::plan::Record &record);

/// Compares the results of a record with the exact results; for large matmuls,
/// convolutions and attention only a sample of the elements.
::binade::Result<Judgement> judge(ModuleOp source, const Execution &execution);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_REFERENCEBOUNDS_H
