//===- ReferenceBounds.h - how far a record may be off ----------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_REFERENCEBOUNDS_H
#define BINADE_LIB_VERIFICATION_REFERENCEBOUNDS_H

#include "Accesses.h"
#include "Compare.h"
#include "binade/Container/Error.h"

namespace mlir::binade {

/// A record that was executed: `accesses` as `listAccesses` gives them, and the
/// bytes of each before and after.
struct Execution {
  const ::binade::plan::Record &record;
  SmallVector<Access, 0> accesses;
  std::vector<Bytes> before, after;
};

/// How the worst element stands to its bound.
struct Judgement {
  double ratio = 0; ///< At most 1 where all are right.
  /// Of that element, where it is not right; `access` says of which access.
  std::optional<Difference> difference;
  size_t access = 0;
};

/// Whether the record adds numbers up in an order that is not said: targets may
/// differ then.
bool mayDiffer(ModuleOp source, const ::binade::plan::Record &record);

/// Compares what a launch, a product or a copy wrote with the exact result, of
/// products on a sample of the elements where they are many. Nothing where
/// there is no reference.
::binade::Result<std::optional<Judgement>> judge(ModuleOp source,
                                                 const Execution &execution);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_REFERENCEBOUNDS_H
