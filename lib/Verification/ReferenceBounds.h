//===- ReferenceBounds.h - how far a record may be off ----------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_REFERENCEBOUNDS_H
#define BINADE_LIB_VERIFICATION_REFERENCEBOUNDS_H

#include "Accesses.h"
#include "Compare.h"
#include "binade/Container/Error.h"
#include "binade/Reference/Interpreter.h"

namespace mlir::binade {

/// A record that was executed: `accesses` as `listAccesses` gives them, and the
/// bytes of each before and after.
struct Execution {
  const ::binade::plan::Record &record;
  SmallVector<RecordAccess, 0> accesses;
  std::vector<Bytes> before, after;
  /// Told by `judge` of each element that may have other bits, where there is
  /// such a function: of which access, its number there, the exact result and
  /// its bound. Nothing is left out then.
  std::function<void(size_t, int64_t, double, double)> onBound = {};
};

/// Whether a launch writes access `index` and reads nothing of it.
bool isOnlyWritten(const Execution &execution, size_t index);

/// How the worst element stands to its bound.
struct Judgement {
  double ratio = 0; ///< At most 1 where all are right.
  /// Of that element, where it is not right; `access` says of which access.
  std::optional<Difference> difference;
  size_t access = 0;

  /// Takes into account that element `deviation.index` of access `index` is
  /// `value` in place of `expected`.
  void add(size_t index, ::binade::DType dtype, const Deviation &deviation,
           double value, double expected);
};

/// Whether the record adds numbers up in an order that is not said: targets may
/// differ then.
bool mayDiffer(ModuleOp source, const ::binade::plan::Record &record);

/// Compares what a record wrote with the exact result; of products and
/// convolutions a sample of the elements where they are many.
::binade::Result<Judgement> judge(ModuleOp source, const Execution &execution);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_REFERENCEBOUNDS_H
