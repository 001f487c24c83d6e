//===- GivenValues.h - Values that a module marks as watched ----*- C++ -*-===//

#ifndef BINADE_LIB_MONITOR_GIVENVALUES_H
#define BINADE_LIB_MONITOR_GIVENVALUES_H

#include "WatchedValues.h"

namespace mlir::binade {

/// Returns the arguments and results of ops that have the attribute
/// `binade.watch`, in order. A step that only computes statistics of tensors of
/// its caller describes them so. Reports values of no known kind as errors, and
/// leaves them out.
std::vector<WatchedValue> collectGivenValues(func::FuncOp step);

} // namespace mlir::binade

#endif // BINADE_LIB_MONITOR_GIVENVALUES_H
